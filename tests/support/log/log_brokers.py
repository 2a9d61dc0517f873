"""Brokers in memory for tests of tables' logs: away and back, with settings of their own."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.errors import Unavailable
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.memory.log import MemoryTopicAdmin
from lakelog.log.records import TopicSpec, TopicState
from metastore.logs.brokers import Brokers

CLUSTER = ("kafka:9092", "kafka:9093")
LOG = {"log.system": "kafka"}


@dataclass
class FakeBrokers:
    """A cluster that tests hold.

    Args:
        is_away: Nobody answers.
        defaults: Settings that the brokers give to new topics.
        requested: The options of each log that was opened.
        second_answers: Unless it is set, those who name the second broker first have no answer.
    """

    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    is_away: bool = False
    defaults: dict[str, str] = field(default_factory=dict)
    requested: list[dict[str, str]] = field(default_factory=list)
    second_answers: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.second_answers.set()

    def open(self, options: Mapping[str, str]) -> MemoryLog:
        self.requested.append(dict(options))
        if "kafka:9093" in options["kafka.bootstrap.servers"].split(",")[:1]:
            self.second_answers.wait(20)
        if self.is_away:
            raise Unavailable("No broker answers at kafka:9092.", reason="NO_BROKERS")
        return _Log(self)

    def make(self) -> Brokers:
        return Brokers([CLUSTER], self.open)

    def make_topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        """As a user has made it."""
        MemoryLog(self.cluster).open_admin().create_topic(TopicSpec(name, partitions))
        self.settings(name).update({key.replace("_", "."): value for key, value in settings.items()})

    def settings(self, name: str) -> dict[str, str]:
        return self.cluster.get_topic(name).settings

    def find(self, name: str) -> TopicState | None:
        return MemoryLog(self.cluster).open_admin().find_topic(name)


class _Log(MemoryLog):
    def __init__(self, brokers: FakeBrokers) -> None:
        super().__init__(brokers.cluster)
        self._brokers = brokers

    def open_admin(self) -> MemoryTopicAdmin:
        return _Admin(self._brokers)


class _Admin(MemoryTopicAdmin):
    def __init__(self, brokers: FakeBrokers) -> None:
        super().__init__(brokers.cluster)
        self._brokers = brokers

    def create_topic(self, spec: TopicSpec) -> TopicState:
        super().create_topic(spec)
        self._brokers.settings(spec.name).update(self._brokers.defaults)
        state = self.find_topic(spec.name)
        assert state is not None
        return state
