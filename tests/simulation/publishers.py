"""Publishers in the simulation: the real core over a log in memory, whose transactions end late, twice or never.

Several publish one table. A lease says whose turn it is, but who was frozen does not know that it is over, so that two
are at work as often as seeds like. Beside them somebody lets late ends of transactions arrive, has the brokers end
transactions that took long, and has them forget positions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import Fenced, HistoryDiverged, LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.log.state import LogInfo, PublishReport, to_publisher_lease
from lakelog.format.tables.snapshot import LogContent, Snapshot
from lakelog.log.memory import Fault, MemoryCluster, MemoryLog, Step
from lakelog.log.memory.reader import MemoryReader
from lakelog.log.records import FetchedRecords, LogPosition
from lakelog.testing.log_history import ROWS_SCHEMA, SNAPSHOTS_SCHEMA, LogFinding, check_log
from lakelog.testing.log_recording import LINES_SCHEMA, to_records
from tests.simulation.actors import SCHEMA, TABLE, World, persistently
from tests.simulation.scheduler import Killed, Scheduler
from tests.simulation.world import WRITING, VirtualClock
from writer.publishing.publisher import PublisherContext, TablePublisher, to_group
from writer.publishing.reading.file_logs import FileLogs
from writer.publishing.recovery import RecoveryFacts
from writer.publishing.topics.monitor import TopicMonitor
from writer.publishing.transactions import TransactionLimits

SERVERS: Final = "brokers:9092"
OPTIONS: Final = {"log.system": "kafka", "kafka.bootstrap.servers": SERVERS, "log.format": "json"}
LIMITS: Final = TransactionLimits(rows=3, snapshots=2, chunk_records_bytes=1)
"""Snapshots of more than three rows are large, and published bucket by bucket."""

PUBLISHING: Final = ("p", "q", "r")
LEASE_MS: Final = 3000
SURE_AFTER: Final = 2
_FAULTS: Final = (
    (Step.COMMIT, Fault.LOST_ANSWER),
    (Step.COMMIT, Fault.LOST_REQUEST),
    (Step.COMMIT, Fault.DOUBLED),
    (Step.COMMIT, Fault.DOUBLED),
    (Step.COMMIT, Fault.REFUSED),
    (Step.SEND, Fault.REFUSED),
    (Step.START, Fault.LOST_ANSWER),
)
_FAULT_RATES: Final = {"commit": 0.25, "send": 0.02, "start": 0.03}


@dataclass(frozen=True)
class PublisherHabits:
    """What publishers do; all true in the product. A habit that is off is a control that must be noticed."""

    one_id: bool = True  # R1
    check_duplicate_sends: bool = True  # R2
    unknown_is_open: bool = True  # R6
    position_of_the_log: bool = True  # R3
    look_at_the_tail: bool = True  # R3


@dataclass
class LogWorld:
    """The brokers of a simulation, what publishers do, and what became of them."""

    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    habits: PublisherHabits = field(default_factory=PublisherHabits)
    late_ends: int = 0
    """Of transactions that came late, and were of the epoch that the id still had."""
    forgotten: int = 0
    producer_reinits: int = 0
    fenced: int = 0
    diverged: list[str] = field(default_factory=list)
    processes: int = 0
    restarts: int = 0
    """How often the log is begun anew, each second time in a topic made anew."""
    is_recreated: bool = False
    """Its topic is, at this moment: whoever publishes must find that."""
    go_on: bool = False
    """Whether publishers try again after an error, as the runner does; else another process takes over."""
    moved_beginnings: int = 0
    """Of generations, behind what the ones before them had sent meanwhile."""


class PausingCalls:
    """Something of the log whose calls are pauses, before and behind them. Who was killed does nothing any more."""

    def __init__(self, inner: Any, world: World, log: LogWorld) -> None:
        self._inner = inner
        self._world = world
        self._log = log

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, lambda: found(*args, **kwargs))

        return call

    def open_reader(self, topic: str) -> PausingCalls:
        """For reading."""
        return PausingCalls(self._inner.open_reader(topic), self._world, self._log)

    def open_producer(self, topic: str, transactional_id: str, group: str) -> PausingProducer:
        """For publishing, under an id of its own where that is the habit."""
        self._log.processes += 1
        own = "" if self._log.habits.one_id else f"-{self._log.processes}"
        producer = self._inner.open_producer(topic, transactional_id + own, group)
        return PausingProducer(producer, self._world, self._log)

    def fetch(self, max_records: int, timeout_s: float) -> Any:
        """For reading. It waits in virtual time, in which others go on meanwhile."""
        found = self._call("fetch", lambda: self._inner.fetch(max_records, 0.0))
        if len(found) == 0:
            self._world.scheduler.sleep(timeout_s)
        return found

    def _call(self, name: str, work: Callable[[], Any]) -> Any:
        scheduler = self._world.scheduler
        if scheduler.is_killed():
            raise Killed
        scheduler.pause(f"asks the brokers to {name}")
        if scheduler.random.random() < _FAULT_RATES.get(name, 0.0):
            step, fault = scheduler.random.choice([each for each in _FAULTS if each[0].value == name])
            self._log.cluster.script(step, fault)
            self._world.faults.note(f"{name}: {fault.value}")
        result = work()
        scheduler.pause(f"was answered by the brokers to {name}")
        return result


class PausingProducer(PausingCalls):
    """A producer with pauses, and with the habits of its publisher."""

    @property
    def can_go_on(self) -> bool:
        """Whether the next transaction may begin without a fresh start."""
        return bool(self._inner.can_go_on) or not self._log.habits.check_duplicate_sends

    def commit(self, position: LogPosition) -> dict[int, dict[int, int]]:
        """Commits; where the end is not known, says so, or takes it for done."""
        try:
            behind: dict[int, dict[int, int]] = self._call("commit", lambda: self._inner.commit(position))
        except OutcomeUnknown:
            if self._log.habits.unknown_is_open:
                raise
            self._call("start", self._inner.start)
            return {}
        return behind


class PolledFeed:
    """Implements `SnapshotFeed` without a thread: asks for what comes behind a snapshot, and checks that it follows."""

    def __init__(self, metastore: Metastore, position: WatchPosition, scheduler: Scheduler) -> None:
        self._metastore = metastore
        self._at = (position.after, position.after_uuid)
        self._table_uuid = position.table_uuid
        self._scheduler = scheduler

    def take(self, wait_s: float) -> Sequence[Snapshot]:
        """See the protocol."""
        found = self._metastore.list_snapshots(self._table_uuid, after=self._at[0], limit=3).snapshots
        for snapshot in found:
            if self._at[1] and snapshot.parent_uuid != self._at[1]:
                raise HistoryDiverged(f"Snapshot {snapshot.snapshot_id} does not follow {self._at}.")
            self._at = (snapshot.snapshot_id, snapshot.snapshot_uuid)
        if not found and wait_s:
            self._scheduler.sleep(wait_s)
        return found

    def close(self) -> None:
        """Nothing to close."""


def publish(world: World, log: LogWorld, name: str) -> None:
    """Publishes while it is its turn, as far as it knows, until all that writers commit is published."""
    scheduler = world.scheduler
    catalog = world.catalog()
    metastore: Any = catalog.metastore
    uuid = persistently(world, lambda: catalog.table(TABLE)).uuid
    duplicate_risks = 0
    while True:
        try:
            epoch = metastore.acquire_lease(to_publisher_lease(uuid), name, LEASE_MS).epoch
            publisher = TablePublisher(uuid, epoch, make_parts(world, log, metastore))
            if _publish_for_a_while(world, log, publisher, uuid):
                return
        except HistoryDiverged as error:
            # As the runner does: who is fenced while he looks around sees what looks like one.
            duplicate_risks += not log.is_recreated
            if log.restarts:
                scheduler.sleep(scheduler.random.uniform(0.0, 0.2))
            if duplicate_risks > SURE_AFTER:
                log.diverged.append(error.message)
                return
        except LakelogError as error:
            duplicate_risks = 0
            log.fenced += isinstance(error, Fenced)
            scheduler.sleep(scheduler.random.uniform(0.05, 1.0))


def _publish_for_a_while(world: World, log: LogWorld, publisher: TablePublisher, uuid: str) -> bool:
    """Steps until the lease is over, or everything is done; renewing is left out, so that others have their turn."""
    scheduler = world.scheduler
    until_s = scheduler.now_s + LEASE_MS / 1000
    try:
        while scheduler.now_s < until_s:
            writers_are_done = scheduler.are_done(WRITING)
            try:
                publisher.step(0.5)
            except LakelogError as error:
                if not log.go_on or isinstance(error, Fenced | HistoryDiverged):
                    raise
                scheduler.sleep(scheduler.random.uniform(0.05, 1.0))
                continue
            at = publisher.position
            if writers_are_done and at.is_complete and at.snapshot_id == len(world.history()):
                return True
        return False
    finally:
        log.producer_reinits += publisher.published.producer_reinits
        if not scheduler.is_killed():
            publisher.forget()


def make_parts(world: World, log: LogWorld, metastore: Any, *, plain: bool = False) -> PublisherContext:
    """What a publisher works with; plain: without pauses and faults."""
    scheduler = world.scheduler
    stores: Any = world.auditing_catalog().stores if plain else world.stores

    def open_log(info: LogInfo) -> Any:
        return MemoryLog(log.cluster) if plain else PausingCalls(MemoryLog(log.cluster), world, log)

    return PublisherContext(
        metastore=metastore,
        open_log=open_log,
        check_topic=lambda info, topic: None,
        logs=FileLogs(metastore, stores),
        open_feed=lambda position, info: PolledFeed(metastore, position, scheduler),
        monitor=TopicMonitor(open_log, VirtualClock(scheduler)),
        clock=VirtualClock(scheduler),
        limits=LIMITS,
    )


def disturb(world: World, log: LogWorld) -> None:
    """What brokers and networks do by themselves."""
    scheduler, cluster = world.scheduler, log.cluster
    (info,) = world.auditing_catalog().metastore.list_logs()
    while not scheduler.are_done(PUBLISHING):
        # Publishers take no time between two pauses, so who only slept would never come between them.
        for _ in range(20):
            scheduler.pause("disturbs")
            dice = scheduler.random.random()
            if dice < 0.3:
                log.late_ends += cluster.deliver_late()
            elif dice < 0.305:
                cluster.expire_transactions()
            elif dice < 0.31:
                cluster.forget_positions(to_group(info))
                log.forgotten += 1
        scheduler.sleep(scheduler.random.uniform(0.0, 0.5))


def restart(world: World, log: LogWorld) -> None:
    """Begins the log anew now and then, beside those who publish it."""
    scheduler = world.scheduler
    metastore: Any = world.catalog().metastore
    (info,) = world.auditing_catalog().metastore.list_logs()
    for number in range(log.restarts):
        scheduler.sleep(scheduler.random.uniform(0.1, 2.0))
        for _ in range(scheduler.random.randrange(40)):
            # As in `disturb`: else it never comes between two pauses of a publisher.
            scheduler.pause("restarts")
        topic = log.cluster.get_topic(info.topic)
        log.is_recreated = bool(number % 2)
        if log.is_recreated:
            log.cluster.delete_topic(info.topic)
        try:
            _restart(world, metastore, info)
        finally:
            log.is_recreated = False
        assert log.cluster.get_topic(info.topic).spec == topic.spec


def _restart(world: World, metastore: Any, info: LogInfo) -> None:
    """As a person does: looks whether it was done where nobody answered."""

    def find_generation() -> int:
        generation: int = persistently(world, lambda: metastore.get_log(info.table_uuid)).generation
        return generation

    before = find_generation()
    while find_generation() == before:
        with contextlib.suppress(Unavailable, OutcomeUnknown):
            metastore.restart_log(info.table_uuid)


class Unreported:
    """A metastore that is told of nothing, as by who has no lease."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.begins: tuple[int, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def report_published(self, report: PublishReport) -> None:
        """Forgets it, but for where the log begins."""
        self.begins = report.begins or self.begins


def find_wrong(known: RecoveryFacts, habits: PublisherHabits) -> RecoveryFacts:
    """What is known without some of the witnesses: the control."""
    if not habits.position_of_the_log:
        return replace(known, position=None, tail=())
    if not habits.look_at_the_tail:
        return replace(known, tail=())
    return known


def judge(world: World, log: LogWorld) -> list[LogFinding]:
    """What a plain consumer of the last generation has to say, when one publisher more has done what was left."""
    log.cluster.deliver_late()
    catalog = world.auditing_catalog()
    table = catalog.table(TABLE)
    metastore: Any = catalog.metastore
    history = world.history()
    info = metastore.get_log(table.uuid)
    unreported = Unreported(metastore)
    publisher = TablePublisher(table.uuid, 0, make_parts(world, log, unreported, plain=True))
    publisher.step(0.0)
    while publisher.position.snapshot_id < len(history) or not publisher.position.is_complete:
        publisher.step(0.0)
    publisher.forget()
    logged = [each for each in history if each.log is not LogContent.NONE and each.snapshot_id > info.starts_after]
    columns = [
        [each.snapshot_id for each in logged],
        [each.snapshot_uuid for each in logged],
        [each.committed_at_ms for each in logged],
        [each.added_rows <= LIMITS.rows for each in logged],
    ]
    snapshots = pa.table(columns, schema=SNAPSHOTS_SCHEMA)
    changes = table.changes(info.starts_after, raw=True).to_arrow()
    wanted = changes.filter(pc.is_in(changes["_snapshot_id"], value_set=snapshots["snapshot"].combine_chunks()))
    rows = wanted.select(["_snapshot_id", "_row_kind", "k", "v"]).rename_columns(ROWS_SCHEMA.names).cast(ROWS_SCHEMA)
    begins = unreported.begins or find_beginning(metastore, info)
    seen = read_all(log.cluster, info.topic, begins)
    records = to_records(seen, SCHEMA, ["k"], row=["v"], log_format="json")
    return check_log(records, snapshots, rows, rows_are_merged=True)


def find_beginning(metastore: Metastore, info: LogInfo) -> tuple[int, ...]:
    """Where the log's generation begins; empty: with the topic."""
    found = metastore.find_log_offsets(info.table_uuid, until=info.starts_after)
    return () if found is None else found.offsets


def read_all(cluster: MemoryCluster, topic: str, begins: Sequence[int] = ()) -> pa.Table:
    """All committed records of a topic, as a plain consumer writes them down."""
    reader = MemoryReader(cluster, topic)
    firsts = begins or [0] * len(reader.list_offsets())
    reader.assign(dict(enumerate(firsts)))
    pieces = []
    while len(piece := reader.fetch(1000, 0.0)):
        pieces.append(_to_lines(piece))
    return pa.concat_tables([LINES_SCHEMA.empty_table(), *pieces])


def _to_lines(records: FetchedRecords) -> pa.Table:
    columns: dict[str, Any] = {
        "partition": records.partitions,
        "offset": records.offsets,
        "snapshot": records.snapshot_ids,
        "uuid": records.uuids,
        "idx": records.indexes,
        "kind": records.kinds,
        "key": records.keys,
        "appended_ms": records.timestamps_ms,
        # Nobody looked until all was over.
        "seen_ms": np.full(len(records), 1 << 60),
        "attempt": records.attempts,
        "sequence": records.sequences,
        "value": records.values,
    }
    return pa.table([columns[name] for name in LINES_SCHEMA.names], names=LINES_SCHEMA.names).cast(LINES_SCHEMA)
