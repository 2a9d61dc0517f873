"""Publishes one table: sends committed changes to the log, each snapshot once, after its commit.

Objectives, which conflict: exactly once, whatever crashes, freezes or is answered late; soon; a backlog is published at
the brokers' speed; bounded memory.

1. After each doubtful event the publisher restarts: a new producer, which fences all others, then the position, then
   the check of the position against the metastore. Doubtful is any error, any missing answer, and any sign that a
   record was sent twice (reliability R2). Nothing that was known before counts afterwards; options, topic and secrets
   of the log are looked up again as well.
2. Only records and position are in one transaction; the report to the metastore comes after it. A restart finds what
   was never reported, and reports it without a time. For records that the writer sent before the commit (`eventual`)
   only the position moves.
3. "Fenced" says that another publisher has started since, not how the transaction ended: so it is doubtful as well.
4. The metastore's watch, not a clock, says that there is something to publish.

`step` does one thing and returns; `writer.publishing.runner` calls it again and again.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.clock import Clock
from lakelog.errors import Fenced, LakelogError, NotFound
from lakelog.format.log.state import LogInfo, PublishReport, PublishState, SnapshotOffsets
from lakelog.format.tables.snapshot import Snapshot
from lakelog.log.protocol import Log, LogProducer
from lakelog.log.records import NOTHING_PUBLISHED, EncodedRecords, LogPosition, LogSnapshot, TopicState

from .published import PublishedSnapshots
from .reading.feed import SnapshotFeed
from .reading.reading_ahead import read_ahead
from .reading.snapshot_log import SnapshotLog, SnapshotLogs, to_owner
from .recovery import RecoveryFacts, find_resume, topic_gone
from .session import Session
from .topics.beginning import find_beginning, may_begin_later
from .topics.ends import find_ends
from .topics.monitor import TopicMonitor
from .topics.watch import TopicWatch, check_appended
from .transactions import TransactionLimits, pick_together


class Step(enum.Enum):
    """What a step did."""

    STARTED = "started"
    """A restart with a new producer."""
    PUBLISHED = "published"
    """A published transaction."""
    IDLE = "idle"
    """Nothing: no snapshot has come within the wait."""


@dataclass
class Published:
    """How much was published since the publisher was made."""

    producer_reinits: int = 0
    transactions: int = 0
    snapshots: int = 0
    records: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class PublisherContext:
    """What a publisher uses.

    Args:
        metastore: Knows the snapshots, and receives the reports.
        open_log: Opens the brokers of a log, according to its options.
        check_topic: Raises the problem of a topic (R9).
        logs: Reads the rows of snapshots.
        open_feed: Makes a feed of a table's snapshots after a position.
        monitor: Polls the topics of all tables of the process.
        clock: For the time.
        limits: The limits of transactions.
        on_published: Called with each transaction that has ended snapshots, once it is committed.
    """

    metastore: Metastore
    open_log: Callable[[LogInfo], Log]
    check_topic: Callable[[LogInfo, TopicState], None]
    logs: SnapshotLogs
    open_feed: Callable[[WatchPosition, LogInfo], SnapshotFeed]
    monitor: TopicMonitor
    clock: Clock
    limits: TransactionLimits = field(default_factory=TransactionLimits)
    on_published: Callable[[PublishedSnapshots], None] = lambda _: None


class TablePublisher:
    """Publishes one table. One thread at a time may use it.

    Args:
        table_uuid: The table.
        epoch: The epoch of the lease under which we publish.
        context: What it uses.
    """

    def __init__(self, table_uuid: str, epoch: int, context: PublisherContext) -> None:
        self._table_uuid: Final = table_uuid
        self._epoch: Final = epoch
        self._context: Final = context
        self._session: Session | None = None
        self._seen: LogInfo | None = None
        self.published: Final = Published()

    @property
    def position(self) -> LogPosition:
        """How far we know the log to be published; `NOTHING_PUBLISHED` before the first start."""
        return NOTHING_PUBLISHED if self._session is None else self._session.position

    @property
    def waiting_count(self) -> int:
        """The number of snapshots that have come and are not published."""
        return 0 if self._session is None else len(self._session.waiting)

    def see(self, info: LogInfo) -> None:
        """Gets the present state of the log, from any thread: if its options have changed, the next step is a restart.

        So new partitions get records, and altered brokers and credentials are used.
        """
        self._seen = info

    def step(self, wait_s: float) -> Step:
        """Does one step; blocks.

        Args:
            wait_s: How long it waits for a snapshot if there is none.

        Raises:
            LakelogError: Something failed. The next step is a restart.
        """
        # Once: it may have been looked up before the last start.
        seen, self._seen = self._seen, None
        try:
            if self._session is not None and seen is not None and _is_altered(self._session.info, seen):
                self.forget()
            if self._session is None:
                self._session = self._start()
                return Step.STARTED
            return self._go_on(self._session, wait_s)
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        """Closes what is open: the next step is a restart. Idempotent; never raises lakelog errors."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _start(self) -> Session:
        self.published.producer_reinits += 1
        metastore = self._context.metastore
        info = metastore.get_log(self._table_uuid)
        log = self._context.open_log(info)
        # Before the position: otherwise a mirror that another publisher writes meanwhile would seem to be ahead of it.
        mirror = metastore.get_publish_state(self._table_uuid)
        producer = log.open_producer(info.topic, to_transactional_id(info), to_group(info))
        try:
            # SUBTLE: the order is the protection. The log is read only after `start`, which fences all others.
            position = _start_producer(info, producer)
            self._check_generation(info)
            known, begins = self._gather_facts(info, log, position, mirror)
            history = MetastoreHistory(metastore, self._table_uuid)
            resume = find_resume(info, known, history)
            parent = None if resume.is_complete else history.find(resume.snapshot_id)
            # The last complete snapshot, after which it continues.
            behind = (
                LogSnapshot(resume.snapshot_id, resume.snapshot_uuid)
                if resume.is_complete
                else LogSnapshot(resume.snapshot_id - 1, "" if parent is None else parent.parent_uuid)
            )
            offsets = list(known.ends)
            self._report_to_metastore(info, log, known, resume, behind, begins)
            seen = WatchPosition(self._table_uuid, behind.snapshot_id, behind.snapshot_uuid)
            feed = self._context.open_feed(seen, info)
        except BaseException:
            with contextlib.suppress(LakelogError):
                producer.close()
            raise
        topic = TopicWatch(self._context.monitor, info, known.topic, self._context.check_topic)
        return Session(info, producer, feed, topic, resume, offsets, self._context.clock.monotonic_s())

    def _check_generation(self, info: LogInfo) -> None:
        """Check that the log is still the one that was looked up before all others were fenced.

        A publisher that was frozen in between would take over a restarted log, and publish what that log is to leave
        out. If the log is restarted after this check, the next start fences this publisher before it publishes
        anything.

        Raises:
            Fenced: It was restarted.
        """
        now = self._context.metastore.get_log(self._table_uuid)
        if (now.generation, now.topic) != (info.generation, info.topic):
            raise Fenced(
                f"The log of {info.name} was restarted, as its generation {now.generation} in the topic {now.topic}, "
                f"while its generation {info.generation} was taken over. The publisher continues with the new one."
            )

    def _gather_facts(
        self, info: LogInfo, log: Log, position: LogPosition | None, mirror: PublishState
    ) -> tuple[RecoveryFacts, tuple[int, ...]]:
        """The facts for recovery, and where the log begins; empty: where it was known to begin."""
        with contextlib.closing(log.open_admin()) as admin:
            topic = admin.find_topic(info.topic)
        if topic is None:
            return RecoveryFacts(position, mirror, None, (), ()), ()
        self._context.check_topic(info, topic)
        with contextlib.closing(log.open_reader(info.topic)) as reader:
            starts, ends, tail = reader.list_offsets(earliest=True), reader.list_offsets(), reader.read_tail()
            known = RecoveryFacts(position, mirror, topic, starts, ends, tail)
            is_open = may_begin_later(info, known)
            return known, find_beginning(info, known, reader, self._context.clock) if is_open else ()

    def _report_to_metastore(
        self,
        info: LogInfo,
        log: Log,
        known: RecoveryFacts,
        resume: LogPosition,
        behind: LogSnapshot,
        begins: tuple[int, ...],
    ) -> None:
        """Reports where the log begins, and what was published but never reported, for example because of a crash."""
        reported: list[SnapshotOffsets] = []
        context, mirror = self._context, known.mirror
        if behind.snapshot_id > mirror.snapshot_id:
            with contextlib.closing(log.open_reader(info.topic)) as reader:
                reported = find_ends(info, known, behind, begins, context.metastore, reader, context.clock)
        elif (
            not begins
            and (resume.next_index or 0) == mirror.next_index
            and mirror.reported_at_ms
            and not mirror.problem
        ):
            return
        self._report(info, reported, resume, begins)

    def _go_on(self, session: Session, wait_s: float) -> Step:
        limits = self._context.limits
        session.topic.poll()
        if len(session.waiting) < limits.snapshots:
            snapshots = session.feed.take(0.0 if session.waiting else wait_s)
            if snapshots:
                session.waiting.extend(self._context.logs.plan(session.info, snapshots, len(session.offsets)))
        if not session.waiting:
            session.rest(self._context.clock.monotonic_s())
            return Step.IDLE
        if not session.producer.can_go_on:
            # It is unknown whether the last transaction's end can still come a second time; or it rests.
            self.forget()
            self._session = self._start()
            return Step.STARTED
        if limits.is_large(session.waiting[0]):
            self._publish_chunk(session, session.waiting[0])
        else:
            self._publish_whole(session, pick_together(session.waiting, limits))
        return Step.PUBLISHED

    def _publish_whole(self, session: Session, count: int) -> None:
        taken = [session.waiting[place] for place in range(count)]
        began_ms = self._context.clock.now_ms()
        session.producer.begin()
        chunks = ((log, chunk) for log in taken for chunk in log.read(self._first_index(session, log)))
        with contextlib.closing(read_ahead(chunks, sum(log.row_count for log in taken))) as ahead:
            for log, chunk in ahead:
                self._send(session, log, chunk.size_bytes, chunk.records)
        last = taken[-1].snapshot
        self._commit(session, taken, LogPosition(last.snapshot_id, last.snapshot_uuid), began_ms)

    def _publish_chunk(self, session: Session, log: SnapshotLog) -> None:
        limits, snapshot = self._context.limits, log.snapshot
        until_s = self._context.clock.monotonic_s() + limits.chunk_s
        sent_bytes = 0
        began_ms = self._context.clock.now_ms()
        session.producer.begin()
        with contextlib.closing(read_ahead(log.read(self._first_index(session, log)), log.row_count)) as ahead:
            for chunk in ahead:
                self._send(session, log, chunk.size_bytes, chunk.records)
                sent_bytes += chunk.size_bytes
                is_full = sent_bytes >= limits.chunk_records_bytes or self._context.clock.monotonic_s() >= until_s
                if is_full and chunk.next_index < log.row_count:
                    position = LogPosition(snapshot.snapshot_id, snapshot.snapshot_uuid, chunk.next_index)
                    self._commit(session, [], position, began_ms)
                    return
        self._commit(session, [log], LogPosition(snapshot.snapshot_id, snapshot.snapshot_uuid), began_ms)

    def _first_index(self, session: Session, log: SnapshotLog) -> int:
        """The first unpublished row of a snapshot; not 0 only for the snapshot in which the position is."""
        position = session.position
        return (position.next_index or 0) if position.snapshot_id == log.snapshot.snapshot_id else 0

    def _send(self, session: Session, log: SnapshotLog, size_bytes: int, records: EncodedRecords) -> None:
        session.producer.send(records, to_owner(session.info, log.snapshot))
        self.published.records += len(records)
        self.published.size_bytes += size_bytes

    def _commit(self, session: Session, ended: list[SnapshotLog], position: LogPosition, began_ms: int) -> None:
        """Commits the transaction; `ended` are the snapshots that are completely published with it."""
        behind = session.producer.commit(position)
        # Before any report: readers trust the metastore about where a snapshot ends.
        check_appended(session.info, session.offsets, behind)
        session.position = position
        session.busy_s = self._context.clock.monotonic_s()
        reported = []
        for log in ended:
            self._move(session, behind.pop(log.snapshot.snapshot_id, log.snapshot.sent_offsets or {}))
            reported.append(
                SnapshotOffsets(log.snapshot.snapshot_id, log.snapshot.snapshot_uuid, tuple(session.offsets))
            )
            session.waiting.popleft()
        for begun in behind.values():
            self._move(session, begun)
        self.published.transactions += 1
        self.published.snapshots += len(ended)
        if ended:
            snapshots = tuple(log.snapshot for log in ended)
            now_ms = self._context.clock.now_ms()
            self._context.on_published(PublishedSnapshots(session.info, snapshots, began_ms, now_ms))
        self._report(session.info, reported, position, visible_now=True)

    def _move(self, session: Session, behind: Mapping[int, int]) -> None:
        for partition, offset in behind.items():
            session.offsets[partition] = max(session.offsets[partition], offset)

    def _report(
        self,
        info: LogInfo,
        reported: list[SnapshotOffsets],
        position: LogPosition,
        begins: tuple[int, ...] = (),
        *,
        visible_now: bool = False,
    ) -> None:
        self._context.metastore.report_published(
            PublishReport(
                table_uuid=self._table_uuid,
                generation=info.generation,
                epoch=self._epoch,
                snapshots=tuple(reported),
                next_index=position.next_index or 0,
                next_uuid="" if position.is_complete else position.snapshot_uuid,
                begins=begins,
                visible_now=visible_now,
            )
        )


@dataclass(frozen=True)
class MetastoreHistory:
    """Implements `writer.publishing.recovery.History`."""

    metastore: Metastore
    table_uuid: str

    def find(self, snapshot_id: int) -> Snapshot | None:
        """A snapshot; None: it is not retained, or there never was one."""
        page = self.metastore.list_snapshots(self.table_uuid, after=snapshot_id - 1, until=snapshot_id, limit=1)
        return next((found for found in page.snapshots if found.snapshot_id == snapshot_id), None)


def _start_producer(info: LogInfo, producer: LogProducer) -> LogPosition | None:
    try:
        return producer.start()
    except NotFound as error:
        raise topic_gone(info) from error


def _is_altered(started: LogInfo, seen: LogInfo) -> bool:
    """Whether the facts that a start looked up have changed. Pure."""
    return (started.generation, started.topic, started.options) != (seen.generation, seen.topic, seen.options)


def to_transactional_id(info: LogInfo) -> str:
    """The id under which every publisher publishes a table, in each generation: so all fence each other (R1)."""
    return f"lakelog-{info.table_uuid}-0"


def to_group(info: LogInfo) -> str:
    """The consumer group without members that stores the position: one for each generation, which begins with none."""
    return f"lakelog-{info.table_uuid}-{info.generation}"
