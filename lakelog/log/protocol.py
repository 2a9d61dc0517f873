"""The log as its users see it: topics, a producer with transactions, and a reader, whatever stands behind them.

Implementations: `lakelog.log.kafka` over a real broker, and `lakelog.log.memory`, which models transactions, fencing,
aborted records, lost answers and late ends of transactions for simulations. One contract suite (`tests/contract/log`)
runs over both. All methods block and raise only errors of `lakelog.errors`:

- `Fenced`: a newer producer has the same transactional id. It says nothing about what was committed: start afresh, read
  the position, go on from there.
- `Unavailable`: no broker answers, or it refuses for the moment; what was not committed by then never will be.
- `OutcomeUnknown`: whether the transaction was committed is not known: a fresh start finds out.
- `NotFound`: there is no such topic (any more).
- `PermissionDenied`: wrong credentials, or not allowed to do this.
- `InvalidArgument`: what was asked for can never be; among it a record that is larger than the topic takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lakelog.log.records import (
    EncodedRecords,
    FetchedRecords,
    LogPosition,
    LogSnapshot,
    TailRecord,
    TopicSpec,
    TopicState,
)


class TopicAdmin(Protocol):
    """Makes, looks at and removes topics."""

    def create_topic(self, spec: TopicSpec) -> TopicState:
        """Makes a topic whose records get the broker's time of appending.

        Raises:
            AlreadyExists: There is a topic of this name.
            Unavailable: The brokers cannot meet it for the moment, as where they are too few for the replication.
        """
        ...

    def find_topic(self, name: str) -> TopicState | None:
        """A topic; None: there is none."""
        ...

    def find_topics(self, names: Sequence[str]) -> dict[str, TopicState | None]:
        """Topics by name, in two questions for all of them; None: there is none.

        Those that we may not ask for are left out.
        """
        ...

    def find_ends(self, name: str) -> tuple[int, ...]:
        """The end of what is committed in each partition of a topic.

        Raises:
            NotFound: There is no such topic.
        """
        ...

    def alter_topic(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Changes settings by their Kafka names; None puts one back to the broker's default."""
        ...

    def add_partitions(self, name: str, partitions: int) -> None:
        """Lets a topic have more partitions, so many in all."""
        ...

    def delete_topic(self, name: str) -> bool:
        """Removes a topic; False: there was none."""
        ...

    def close(self) -> None:
        """Ends all connections; idempotent."""
        ...


class LogProducer(Protocol):
    """Publishes to one topic under one transactional id (reliability R1 to R6). One thread at a time may use it."""

    def start(self) -> LogPosition | None:
        """A fresh start (R2). Blocks for some 65 ms.

        A new producer fences whoever has had the id, ends what that one left open, and only then reads the position.

        Returns:
            The position that was committed last with `commit`; None: there is none, or it was forgotten.
        """
        ...

    @property
    def can_go_on(self) -> bool:
        """Whether the next transaction may begin without a fresh start.

        Only on evidence that nothing was ever sent twice since the last one (R2).
        """
        ...

    def begin(self) -> None:
        """Begins a transaction."""
        ...

    def send(self, records: EncodedRecords, snapshot: LogSnapshot) -> None:
        """Adds records of a snapshot to the transaction; blocks while too many wait to be sent."""
        ...

    def commit(self, position: LogPosition) -> dict[int, dict[int, int]]:
        """Commits the records and, in the same transaction, the position; without a timeout of its own (R6).

        Returns:
            For each snapshot of which records were sent, by id: the offset behind its last record by partition.
        """
        ...

    def abort(self) -> None:
        """Gives the transaction up; does nothing where there is none."""
        ...

    def close(self) -> None:
        """Ends all connections; an open transaction is not committed. Idempotent."""
        ...


class LogReader(Protocol):
    """Reads the committed records of one topic, as any consumer does that reads `read_committed`."""

    def list_offsets(self, *, timestamp_ms: int | None = None, earliest: bool = False) -> tuple[int, ...]:
        """An offset for each partition: the end of what is committed.

        With `earliest` the first that is kept; with a time the first record that was appended then or later, else the
        end.
        """
        ...

    def read_tail(self) -> list[TailRecord]:
        """The last committed record of each partition that has one."""
        ...

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Goes on at these offsets of these partitions, and of no others.

        Raises:
            NotFound: The topic has no such partition, or there is none: what had them was another topic.
        """
        ...

    def fetch(self, max_records: int, timeout_s: float) -> FetchedRecords:
        """The next records, at most so many; as soon as there are some, none when the time has passed.

        Raises:
            SnapshotExpired: An offset is not kept any more; reason `LOG_TOO_SHORT`, `metadata` has `partition`,
                `offset`, `earliest`, `latest`. Never is anything left out in silence.
        """
        ...

    def positions(self) -> dict[int, int]:
        """Where each assigned partition goes on, behind aborted records and ends of transactions that were passed."""
        ...

    def close(self) -> None:
        """Ends all connections; idempotent."""
        ...


class UncommittedSender(Protocol):
    """Sends records before their commit (`log.consistency=eventual`): at once and at least once."""

    def send(self, records: EncodedRecords, attempt_id: str) -> None:
        """Sends without waiting for an answer; blocks while too many wait to be sent."""
        ...

    def flush(self, timeout_s: float) -> dict[int, int] | None:
        """Waits until all that was sent stands in the topic.

        Returns:
            The offset behind the last record by partition; None: some of it may not stand there, so that all counts as
            not sent.

        Raises:
            LakelogError: So it is, and this is why: brokers have refused some.
        """
        ...

    def close(self) -> None:
        """Ends all connections; idempotent."""
        ...


class Log(Protocol):
    """One cluster of brokers, with the options of one table. What it opens belongs to the caller."""

    def open_admin(self) -> TopicAdmin:
        """For its topics."""
        ...

    def open_producer(self, topic: str, transactional_id: str, group: str) -> LogProducer:
        """For publishing; connects with `start`.

        `group` is the consumer group without members whose committed offset of the topic's partition 0 is the position.
        """
        ...

    def open_reader(self, topic: str) -> LogReader:
        """For reading."""
        ...

    def open_uncommitted_sender(self, topic: str) -> UncommittedSender:
        """For sending before the commit."""
        ...
