"""What a store does for the topics of tables' logs: a part of `metastore.store.transaction`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lakelog.format.tables.table import TableName


class TopicLife(enum.Enum):
    """The state of a topic in its life cycle; what the table looks like does not depend on it."""

    CREATING = "creating"
    """The topic may exist, its table does not yet. A process that dies leaves such a topic, which is then dropped."""
    WANTED = "wanted"
    """The table exists, the topic perhaps not: it is made as soon as brokers can be reached."""
    LIVE = "live"
    """The topic holds the table's log."""
    DROPPING = "dropping"
    """The table is gone: the topic is deleted as soon as brokers can be reached."""
    GONE = "gone"
    """Nothing is left to do. The record stays while the table can be restored, so that its generation only rises."""


@dataclass(frozen=True)
class LogTopic:
    """One generation of a table's log.

    Args:
        table_uuid: The table.
        generation: From 1.
        topic: The topic's name.
        topic_id: The broker's own id of the topic; empty: not known yet.
        starts_after: The log holds the snapshots after this one.
        is_named: The user chose the name: the topic is never deleted.
        life: The topic's state.
        options: The table's options that concern its log.
        problem: What prevented the last attempt; empty: nothing.
    """

    table_uuid: str
    generation: int
    topic: str
    topic_id: str
    starts_after: int
    is_named: bool
    life: TopicLife
    options: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True)
class LogStart:
    """A generation that is about to begin.

    Args:
        topic: The record to be written.
        offsets: Where each partition ends before the generation: earlier records are of others, or of earlier
            generations.
    """

    topic: LogTopic
    offsets: tuple[int, ...] = ()


class LogTransaction(Protocol):
    """Topics of logs. The lock on a table's head is taken before the one on its topic."""

    async def put_log_topic(self, topic: LogTopic) -> None:
        """Records a generation, with the time; replaces its earlier record."""
        ...

    async def delete_log_topic(self, table_uuid: str, generation: int) -> None:
        """Forgets a generation."""
        ...

    async def find_log_topic(self, table_uuid: str) -> LogTopic | None:
        """The newest generation of a table's log, in any state; None: it has none."""
        ...

    async def lock_log_topic(self, table_uuid: str) -> LogTopic | None:
        """As `find_log_topic`; no one else changes it before the transaction ends."""
        ...

    async def find_topic_user(self, topic_id: str, table_uuid: str) -> TableName | None:
        """Another table whose log is in the topic now; None: there is none, nor will be before the transaction ends.

        The names are empty while that table is only being made.
        """
        ...

    async def find_named_topics(self, name: str, table_uuid: str) -> list[tuple[LogTopic, TableName]]:
        """The logs of other existing tables in topics of a name, at any brokers, by table uuid.

        Another call for the same name waits for the transaction to end.
        """
        ...

    async def list_log_topics(self) -> list[tuple[LogTopic, TableName]]:
        """The newest generations of all existing tables, by table uuid."""
        ...

    async def list_unsettled_topics(self, abandoned_ms: int, limit: int) -> list[LogTopic]:
        """Generations that need work, those visited last at the end; at most `limit`.

        A topic of them is to be made or to be dropped, has been in the making for longer than `abandoned_ms`, or
        belongs to a table that is not known any more.
        """
        ...
