"""Publishing one table: from what was committed to the log, each snapshot once, behind its commit.

Objectives, which conflict: exactly once, whatever dies, freezes or is answered late; soon; a backlog is caught up with
at the brokers' speed; bounded memory.

1. After each doubt there is a fresh start: a new producer, which fences all others, then the position, then the check
   of what it says against the metastore. Doubt is any error, any answer that did not come, and any sign that something
   was sent twice (reliability R2). Nothing that was believed before counts after it, nor does what was known of the
   log: options, topic and secrets are looked up again.
2. Records, position and nothing else are in one transaction; the metastore is told behind it. What it was not told, a
   fresh start finds out. Of what its writer has sent before the commit (`eventual`) only the position is moved.
3. "Fenced" says that another has started since, not what became of the work: so it is a doubt like any other.
4. The metastore's watch, not a clock, says that there is something to do.

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

from .reading.feed import SnapshotFeed
from .reading.reading_ahead import read_ahead
from .reading.snapshot_log import SnapshotLog, SnapshotLogs, to_owner
from .recovery import RecoveryFacts, find_resume, topic_gone
from .session import Session
from .topics.beginning import find_beginning, may_begin_later
from .topics.monitor import TopicMonitor
from .topics.watch import TopicWatch, check_appended
from .transactions import TransactionLimits, pick_together


class Step(enum.Enum):
    """What a step did."""

    STARTED = "started"
    """A fresh start."""
    PUBLISHED = "published"
    """A transaction."""
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
    """What a publisher works with.

    Args:
        metastore: Knows the snapshots, and is told what is published.
        open_log: The brokers of a log, as its options say.
        check_topic: Raises what is wrong with a topic (R9).
        logs: Where rows of snapshots come from.
        open_feed: Makes a feed of a log's snapshots behind a position.
        monitor: At the topics, of all tables of the process.
        clock: For the time.
        limits: Of transactions.
    """

    metastore: Metastore
    open_log: Callable[[LogInfo], Log]
    check_topic: Callable[[LogInfo, TopicState], None]
    logs: SnapshotLogs
    open_feed: Callable[[WatchPosition, LogInfo], SnapshotFeed]
    monitor: TopicMonitor
    clock: Clock
    limits: TransactionLimits = field(default_factory=TransactionLimits)


class TablePublisher:
    """Publishes one table. One thread at a time may use it.

    Args:
        table_uuid: The table.
        epoch: Of the lease that schedules us.
        context: What it works with.
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
        """How far we know the log to be published; `NOTHING_PUBLISHED` before a fresh start."""
        return NOTHING_PUBLISHED if self._session is None else self._session.position

    @property
    def waiting_count(self) -> int:
        """Snapshots that have come and are not published."""
        return 0 if self._session is None else len(self._session.waiting)

    def see(self, info: LogInfo) -> None:
        """Tells what the log is like by now, from any thread: where its options are others, the next step is a start.

        So partitions that were added get records, and brokers and credentials that were altered are used.
        """
        self._seen = info

    def step(self, wait_s: float) -> Step:
        """Does one thing; blocks.

        Args:
            wait_s: How long it waits for a snapshot where there is none.

        Raises:
            LakelogError: Something failed. The next step is a fresh start.
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
        """Closes what is open: the next step is a fresh start. Idempotent; never raises lakelog errors."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _start(self) -> Session:
        self.published.producer_reinits += 1
        metastore = self._context.metastore
        info = metastore.get_log(self._table_uuid)
        log = self._context.open_log(info)
        # Before the position: a mirror that another writes meanwhile would seem to be ahead of it.
        mirror = metastore.get_publish_state(self._table_uuid)
        producer = log.open_producer(info.topic, to_transactional_id(info), to_group(info))
        try:
            # SUBTLE: the order is the protection. Only behind `start`, which fences all others, is the log read.
            position = _start_producer(info, producer)
            self._check_generation(info)
            known, begins = self._gather_facts(info, log, position, mirror)
            history = MetastoreHistory(metastore, self._table_uuid)
            resume = find_resume(info, known, history)
            parent = None if resume.is_complete else history.find(resume.snapshot_id)
            # Behind which whole snapshot it goes on.
            behind = (
                LogSnapshot(resume.snapshot_id, resume.snapshot_uuid)
                if resume.is_complete
                else LogSnapshot(resume.snapshot_id - 1, "" if parent is None else parent.parent_uuid)
            )
            offsets = list(known.ends)
            self._report_to_metastore(info, mirror, resume, behind, offsets, begins)
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

        Who was frozen in between would take a log back that was begun anew, and publish what that one is to leave out.
        Whoever begins it anew behind this check is fenced by the next start, before anything is published.

        Raises:
            Fenced: It was begun anew.
        """
        now = self._context.metastore.get_log(self._table_uuid)
        if (now.generation, now.topic) != (info.generation, info.topic):
            raise Fenced(
                f"The log of {info.name} was begun anew, as its generation {now.generation} in the topic {now.topic}, "
                f"while its generation {info.generation} was taken over. It goes on with the new one."
            )

    def _gather_facts(
        self, info: LogInfo, log: Log, position: LogPosition | None, mirror: PublishState
    ) -> tuple[RecoveryFacts, tuple[int, ...]]:
        """What is known, and where the log begins; empty: where it was known to begin."""
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
        mirror: PublishState,
        resume: LogPosition,
        behind: LogSnapshot,
        ends: list[int],
        begins: tuple[int, ...],
    ) -> None:
        """Tells where the log begins, and what was published and never told, as by who died in between."""
        reported = []
        if behind.snapshot_id > mirror.snapshot_id:
            reported = [SnapshotOffsets(behind.snapshot_id, behind.snapshot_uuid, tuple(ends))]
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
            # Whether the last transaction's end can still come a second time is not known; or it rests.
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
        session.producer.begin()
        chunks = ((log, chunk) for log in taken for chunk in log.read(self._first_index(session, log)))
        with contextlib.closing(read_ahead(chunks, sum(log.row_count for log in taken))) as ahead:
            for log, chunk in ahead:
                self._send(session, log, chunk.size_bytes, chunk.records)
        last = taken[-1].snapshot
        self._commit(session, taken, LogPosition(last.snapshot_id, last.snapshot_uuid))

    def _publish_chunk(self, session: Session, log: SnapshotLog) -> None:
        limits, snapshot = self._context.limits, log.snapshot
        until_s = self._context.clock.monotonic_s() + limits.chunk_s
        sent_bytes = 0
        session.producer.begin()
        with contextlib.closing(read_ahead(log.read(self._first_index(session, log)), log.row_count)) as ahead:
            for chunk in ahead:
                self._send(session, log, chunk.size_bytes, chunk.records)
                sent_bytes += chunk.size_bytes
                is_full = sent_bytes >= limits.chunk_records_bytes or self._context.clock.monotonic_s() >= until_s
                if is_full and chunk.next_index < log.row_count:
                    position = LogPosition(snapshot.snapshot_id, snapshot.snapshot_uuid, chunk.next_index)
                    self._commit(session, [], position)
                    return
        self._commit(session, [log], LogPosition(snapshot.snapshot_id, snapshot.snapshot_uuid))

    def _first_index(self, session: Session, log: SnapshotLog) -> int:
        """The first row of a snapshot that is not published: only of the one that the position stands in another."""
        position = session.position
        return (position.next_index or 0) if position.snapshot_id == log.snapshot.snapshot_id else 0

    def _send(self, session: Session, log: SnapshotLog, size_bytes: int, records: EncodedRecords) -> None:
        session.producer.send(records, to_owner(session.info, log.snapshot))
        self.published.records += len(records)
        self.published.size_bytes += size_bytes

    def _commit(self, session: Session, ended: list[SnapshotLog], position: LogPosition) -> None:
        """Commits the transaction; `ended` are the snapshots that are published as a whole with it."""
        behind = session.producer.commit(position)
        # Before anybody is told: readers take the metastore's word for where a snapshot ends.
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
        self._report(session.info, reported, position)

    def _move(self, session: Session, behind: Mapping[int, int]) -> None:
        for partition, offset in behind.items():
            session.offsets[partition] = max(session.offsets[partition], offset)

    def _report(
        self, info: LogInfo, reported: list[SnapshotOffsets], position: LogPosition, begins: tuple[int, ...] = ()
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
            )
        )


@dataclass(frozen=True)
class MetastoreHistory:
    """Implements `writer.publishing.recovery.History`."""

    metastore: Metastore
    table_uuid: str

    def find(self, snapshot_id: int) -> Snapshot | None:
        """A snapshot; None: it is not kept, or there never was one."""
        page = self.metastore.list_snapshots(self.table_uuid, after=snapshot_id - 1, until=snapshot_id, limit=1)
        return next((found for found in page.snapshots if found.snapshot_id == snapshot_id), None)


def _start_producer(info: LogInfo, producer: LogProducer) -> LogPosition | None:
    try:
        return producer.start()
    except NotFound as error:
        raise topic_gone(info) from error


def _is_altered(started: LogInfo, seen: LogInfo) -> bool:
    """Whether what a start has looked up is another by now. Pure."""
    return (started.generation, started.topic, started.options) != (seen.generation, seen.topic, seen.options)


def to_transactional_id(info: LogInfo) -> str:
    """Under which a table is published, by whomever and in each generation of its log: so all fence each other (R1)."""
    return f"lakelog-{info.table_uuid}-0"


def to_group(info: LogInfo) -> str:
    """The consumer group without members that keeps the position: one for each generation, which begins with none."""
    return f"lakelog-{info.table_uuid}-{info.generation}"
