"""A cluster in memory as a log, with its topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakelog.log.memory.cluster import MemoryCluster, to_state
from lakelog.log.memory.faults import Step, to_unavailable
from lakelog.log.memory.producing import MemoryProducer, MemoryUncommittedSender
from lakelog.log.memory.reader import MemoryReader
from lakelog.log.protocol import Log, TopicAdmin
from lakelog.log.records import TopicSpec, TopicState
from lakelog.log.topic_rules import to_topic_settings


class MemoryLog(Log):
    """See `lakelog.log.protocol.Log`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def open_admin(self) -> MemoryTopicAdmin:
        return MemoryTopicAdmin(self._cluster)

    def open_producer(self, topic: str, transactional_id: str, group: str) -> MemoryProducer:
        return MemoryProducer(self._cluster, topic, transactional_id, group)

    def open_reader(self, topic: str) -> MemoryReader:
        return MemoryReader(self._cluster, topic)

    def open_uncommitted_sender(self, topic: str) -> MemoryUncommittedSender:
        return MemoryUncommittedSender(self._cluster, topic)


class MemoryTopicAdmin(TopicAdmin):
    """See `lakelog.log.protocol.TopicAdmin`. With any scripted fault, the request never arrives."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def create_topic(self, spec: TopicSpec) -> TopicState:
        self._request()
        defaults = {"min.insync.replicas": "1"}
        return to_state(self._cluster.create_topic(spec, {**defaults, **to_topic_settings(spec)}))

    def find_topic(self, name: str) -> TopicState | None:
        return self.find_topics([name])[name]

    def find_topics(self, names: Sequence[str]) -> dict[str, TopicState | None]:
        self._request()
        found = {name: self._cluster.find_topic(name) for name in names}
        return {name: None if topic is None else to_state(topic) for name, topic in found.items()}

    def find_ends(self, name: str) -> tuple[int, ...]:
        self._request()
        with self._cluster.changed:
            return tuple(partition.stable_end for partition in self._cluster.get_topic(name).partitions)

    def alter_topic(self, name: str, settings: Mapping[str, str | None]) -> None:
        self._request()
        topic = self._cluster.get_topic(name)
        for key, value in settings.items():
            if value is None:
                topic.settings.pop(key, None)
            else:
                topic.settings[key] = value

    def add_partitions(self, name: str, partitions: int) -> None:
        self._request()
        self._cluster.add_partitions(name, partitions)

    def delete_topic(self, name: str) -> bool:
        self._request()
        return self._cluster.delete_topic(name)

    def close(self) -> None:
        pass

    def _request(self) -> None:
        if self._cluster.faults.take(Step.ADMIN) is not None:
            raise to_unavailable(Step.ADMIN)
