"""What a store does for the topics of tables' logs: a part of `metastore.store.transaction`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lakelog.format.tables.table import TableName


class TopicLife(enum.Enum):
    """Where a topic is in its life; what a table is like does not depend on it."""

    CREATING = "creating"
    """It may be there, its table is not yet: left by who died, it is dropped."""
    WANTED = "wanted"
    """Its table is there, it may not be: it is made as soon as brokers can be reached."""
    LIVE = "live"
    """It holds the table's log."""
    DROPPING = "dropping"
    """Its table is gone: it is deleted as soon as brokers can be reached."""
    GONE = "gone"
    """Nothing is left to be done. Known for as long as the table can be restored, so that its generation only rises."""


@dataclass(frozen=True)
class LogTopic:
    """One generation of a table's log.

    Args:
        table_uuid: The table.
        generation: From 1.
        topic: The topic's name.
        topic_id: The broker's own id of it; empty: not known yet.
        starts_after: It holds the snapshots behind this one.
        is_named: The name is the user's: the topic is never deleted.
        life: Where it is.
        options: Of the table those that are about its log.
        problem: What stood in the way when it was last tried; empty: nothing.
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
        topic: As it is to be written down.
        offsets: Where each partition ends before it: what stands there is of others, or of earlier generations.
    """

    topic: LogTopic
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class LogLag:
    """How far a log is behind its table.

    Args:
        table: The table's full name.
        snapshots_behind: How many are not published as a whole.
        behind_ms: For how long the first of them has been there; 0: there is none.
        has_problem: It cannot be published now.
    """

    table: str
    snapshots_behind: int
    behind_ms: int
    has_problem: bool


class LogTransaction(Protocol):
    """Topics of logs. A lock on one comes behind that on its table's head."""

    async def put_log_topic(self, topic: LogTopic) -> None:
        """Writes a generation down, with the time; replaces what was known of it."""
        ...

    async def delete_log_topic(self, table_uuid: str, generation: int) -> None:
        """Forgets a generation."""
        ...

    async def find_log_topic(self, table_uuid: str) -> LogTopic | None:
        """The newest generation of a table's log, whatever has become of it; None: it has none."""
        ...

    async def lock_log_topic(self, table_uuid: str) -> LogTopic | None:
        """As `find_log_topic`; nobody else changes it before the transaction ends."""
        ...

    async def find_topic_user(self, topic_id: str, table_uuid: str) -> TableName | None:
        """Another table whose log is in the topic now; None: there is none, nor will be before the transaction ends.

        Empty names where that table is only being made.
        """
        ...

    async def find_named_topics(self, name: str, table_uuid: str) -> list[tuple[LogTopic, TableName]]:
        """The logs of other tables that are there in topics of a name, at whatever brokers, by table uuid.

        Whoever asks for the same name waits for the transaction to end.
        """
        ...

    async def list_log_topics(self) -> list[tuple[LogTopic, TableName]]:
        """The newest generations of all tables that are there, by table uuid."""
        ...

    async def list_log_lags(self) -> list[LogLag]:
        """How far the logs of all tables that are there are behind."""
        ...

    async def list_unsettled_topics(self, abandoned_ms: int, limit: int) -> list[LogTopic]:
        """Generations of which something is to be done, those that were looked at last at the end; at most `limit`.

        They are wanted, or to be dropped, or have been in the making for longer than `abandoned_ms`, or of a table that
        is not known any more.
        """
        ...
