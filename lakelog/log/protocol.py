"""The log as its users see it: topics, a producer with transactions, and a reader, for any implementation.

Implementations: `lakelog.log.kafka` over a real broker, and `lakelog.log.memory`, which models transactions, fencing,
aborted records, lost answers and late ends of transactions for simulations. One contract suite (`tests/contract/log`)
runs over both. All methods block and raise only errors of `lakelog.errors`:

- `Fenced`: a newer producer has the same transactional id. It says nothing about earlier commits: initialise the
  producer again, read the position, go on from there.
- `Unavailable`: no broker answers, or it refuses for the moment; what is not committed by then never will be.
- `OutcomeUnknown`: it is not known whether the transaction was committed: a re-initialisation finds out.
- `NotFound`: there is no such topic (any more).
- `PermissionDenied`: wrong credentials, or not allowed to do this.
- `InvalidArgument`: the request can never succeed, for instance a record that is larger than the topic allows.
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
    """Creates, describes, changes and removes topics."""

    def create_topic(self, spec: TopicSpec) -> TopicState:
        """Makes a topic whose records have the time at which the broker appended them.

        Raises:
            AlreadyExists: A topic of this name exists.
            Unavailable: The brokers cannot do it for the moment, for instance because they are too few for the
                replication.
        """
        ...

    def find_topic(self, name: str) -> TopicState | None:
        """A topic; None: there is none."""
        ...

    def find_topics(self, names: Sequence[str]) -> dict[str, TopicState | None]:
        """Topics by name, in two requests for all of them; None: there is none.

        Topics that we may not request are left out.
        """
        ...

    def find_ends(self, name: str) -> tuple[int, ...]:
        """The end of the committed records in each partition of a topic.

        Raises:
            NotFound: There is no such topic.
        """
        ...

    def alter_topic(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Changes settings by their Kafka names; None restores the broker's default."""
        ...

    def add_partitions(self, name: str, partitions: int) -> None:
        """Raises a topic's partitions to this number in all."""
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
        """Initialises the producer, at first or again (R2). Blocks for some 65 ms.

        The new producer fences the earlier one of this id, ends its open transaction, and only then reads the position.

        Returns:
            The position of the last `commit`; None: there is none, or the brokers have forgotten it.
        """
        ...

    @property
    def can_go_on(self) -> bool:
        """Whether the next transaction may begin without a re-initialisation.

        Only if it is certain that nothing was sent twice since the last one (R2).
        """
        ...

    def begin(self) -> None:
        """Begins a transaction."""
        ...

    def send(self, records: EncodedRecords, snapshot: LogSnapshot) -> None:
        """Adds records of a snapshot to the transaction; blocks while too many wait to be sent."""
        ...

    def commit(self, position: LogPosition) -> dict[int, dict[int, int]]:
        """Commits the records and, in the same transaction, the position; has no timeout of its own (R6).

        Returns:
            By snapshot id, for each snapshot with records: the offset after its last record, by partition.
        """
        ...

    def abort(self) -> None:
        """Gives up the transaction; does nothing if there is none."""
        ...

    def close(self) -> None:
        """Ends all connections; an open transaction is not committed. Idempotent."""
        ...


class LogReader(Protocol):
    """Reads the committed records of one topic, like any consumer that reads `read_committed`."""

    def list_offsets(self, *, timestamp_ms: int | None = None, earliest: bool = False) -> tuple[int, ...]:
        """An offset for each partition: the end of the committed records.

        With `earliest`: the first retained offset. With a time: the first record that was appended then or later, else
        the end.
        """
        ...

    def read_tail(self) -> list[TailRecord]:
        """The last committed record of each partition that has one."""
        ...

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Goes on at these offsets of these partitions, and reads no others.

        Raises:
            NotFound: There is no such partition or topic: the offsets belong to an earlier topic.
        """
        ...

    def fetch(self, max_records: int, timeout_s: float) -> FetchedRecords:
        """The next records, at most so many; returns as soon as there are some, and none when the time is over.

        Raises:
            SnapshotExpired: An offset is no longer retained; reason `LOG_TOO_SHORT`, `metadata` has `partition`,
                `offset`, `earliest`, `latest`. No record is ever left out silently.
        """
        ...

    def positions(self) -> dict[int, int]:
        """Where each assigned partition goes on, after the aborted records and ends of transactions it has passed."""
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
            The offset after the last record, by partition; None: a record may be missing, so all count as not sent.

        Raises:
            LakelogError: A record may be missing, and this is why: brokers have refused some.
        """
        ...

    def close(self) -> None:
        """Ends all connections; idempotent."""
        ...


class Log(Protocol):
    """One cluster of brokers, with the options of one table. The caller owns what it opens."""

    def open_admin(self) -> TopicAdmin:
        """A client for its topics."""
        ...

    def open_producer(self, topic: str, transactional_id: str, group: str) -> LogProducer:
        """A producer for publishing; connects with `start`.

        `group` is a consumer group without members; its committed offset of the topic's partition 0 is the position.
        """
        ...

    def open_reader(self, topic: str) -> LogReader:
        """A reader of committed records."""
        ...

    def open_uncommitted_sender(self, topic: str) -> UncommittedSender:
        """A sender of uncommitted records."""
        ...
