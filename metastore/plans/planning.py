"""Plans: which files a read must look at.

Two ways lead to the same answer. Narrow plans (partitions, buckets, a range of snapshots) use rows, found by index.
Wide plans use chunks: packed entries are sent as they are, less what was removed since, followed by the rows that came
later (`chunk_plan.py`). Heads, snapshots and files are read with explicit bounds on snapshot ids, and a committed
snapshot never changes, so statements that see different moments still agree. Only what expires in between could be
missed: so a check at the end finds out whether everything planned is still retained, and if not, it is planned again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from lakelog.clock import Clock, show_time
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.commit.facts import TableHead
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES
from lakelog.format.retention.retained import check_retained, to_expired
from lakelog.format.tables.plan import AtSnapshot, AtTag, AtTime, InRange, PlanHeader, PlanRequest
from lakelog.format.tables.prune import PreparedPredicate
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import as_of
from lakelog.format.types.schema import TableSchema
from lakelog.recently_used import RecentlyUsed
from lakelog.serving.edge.fair_room import FairRoom
from lakelog.serving.edge.origin import origin
from lakelog.tracing import spans

from ..heavy_work import HeavyWork
from ..logs.files import check_log_request, load_log_files
from ..metrics import Metrics
from ..snapshots.retained import load_retained, load_tag, to_overtaken
from ..snapshots.tags import check_tag_name
from ..store.limits import BOUNDS, Limits
from ..store.records import TableRecord
from ..store.transaction import Store, Transaction, TransactionAborted, run_transaction
from ..store.validation import check_number, check_uuid, invalid
from ..tables.lookup import find_head, find_table
from .chunk_plan import ChunkCache, ChunkPlan, prepare_chunks
from .file_filter import FileFilter, PartitionMatches, make_filter
from .older_clients import refuse_removed_rows, to_changed_columns
from .packing import MIN_UNPACKED
from .parts import PlanChunkData, stream_sorted
from .predicates import count_values, prepare_predicate

_MAX_ROW_PLAN_FILES = 4096
"""Up to this many live files, a plan of some of them loads rows: the database filters them faster than chunks are
decoded. A plan of all files loads rows only where there may be no chunks yet, because a row costs some microseconds."""

_MAX_LISTED_PARTITIONS = 100_000


@dataclass(frozen=True)
class PlanStream:
    """A plan, with its files in parts.

    Args:
        header: All but the files.
        chunks: The parts, to be iterated once.
    """

    header: PlanHeader
    chunks: AsyncIterator[PlanChunkData]


@dataclass(frozen=True)
class _Rows:
    """Entries that were loaded as rows and are still to be tested; no entry of a log is left out."""

    entries: pa.Table
    wanted: FileFilter
    is_log: bool = False

    def select(self) -> pa.Table:
        return self.entries if self.is_log else self.wanted.select(self.entries)


_Found: TypeAlias = tuple[PlanHeader, _Rows | None, ChunkPlan | None]


class Planner:
    """Plans files.

    Args:
        store: Where everything is stored.
        clock: Measures latency.
        limits: How long a range may be.
        metrics: Gets latency.
        work: Its threads test and sort the files, if there are many.
    """

    def __init__(self, store: Store, clock: Clock, limits: Limits, metrics: Metrics, work: HeavyWork) -> None:
        self._store = store
        self._threads = work.plans
        self._looking_up = FairRoom(limits.max_parallel_plans)
        self._clock = clock
        self._limits = limits
        self._metrics = metrics
        self._cache: ChunkCache = RecentlyUsed(limits.chunk_cache_bytes, len)

    async def plan(self, request: PlanRequest) -> PlanStream:
        """The files a read must look at.

        Raises:
            NotFound: No such table or snapshot, or none as old as the time.
            SnapshotExpired: The snapshot or a part of the range is no longer retained.
            InvalidArgument: The request is malformed.
        """
        with spans.span("plan"):
            return await self._plan(request)

    async def _plan(self, request: PlanRequest) -> PlanStream:
        started_s = self._clock.monotonic_s()
        predicate = await self._threads.run(_count_items(request), _check_request, request)
        matches = None if predicate is None else PartitionMatches(predicate)
        found = await self._look_up(request, matches)
        while found is None:
            assert matches is not None, "only a predicate has partitions judged"
            await matches.judge_all(self._threads)
            found = await self._look_up(request, matches)
        header, rows, chunks = found
        parts = _no_parts()
        if chunks is not None:
            parts = (await chunks.judged(self._threads)).stream(self._store, self._cache, self._threads)
        elif rows is not None:
            judged = await self._threads.run(rows.wanted.weigh(rows.entries.num_rows), rows.select)
            parts = stream_sorted(judged, self._threads, with_statistics=request.with_statistics)
        if not (request.reads_changed_columns or header.schema.primary_key or isinstance(request.at, InRange)):
            parts = refuse_removed_rows(parts, header.table.name, self._threads)
        self._metrics.observe_seconds("plan_latency_seconds", self._clock.monotonic_s() - started_s)
        return PlanStream(header, parts)

    async def _look_up(self, request: PlanRequest, matches: PartitionMatches | None) -> _Found | None:
        """The store's answer; None: partitions must be tested first."""
        await self._looking_up.take(origin.get())
        try:
            return await run_transaction(self._store, lambda tx: self._prepare(tx, request, matches))
        finally:
            self._looking_up.give_back()

    async def _prepare(self, tx: Transaction, request: PlanRequest, matches: PartitionMatches | None) -> _Found | None:
        found = await self._load(tx, request, matches)
        if found is not None:
            header, _, chunks = found
            if header.snapshot is not None:
                await _check_not_overtaken(tx, request, header.snapshot, chunks)
        return found

    async def _load(self, tx: Transaction, request: PlanRequest, matches: PartitionMatches | None) -> _Found | None:
        found = await find_table(tx, request.table_uuid)
        head = await find_head(tx, request.table_uuid)
        if head.schema_id != found.info.schema.schema_id:
            raise TransactionAborted(f"The columns of {head.name} were changed while it was looked at. Try again.")
        if head.schema_id and not request.reads_changed_columns:
            raise to_changed_columns(head.name, head.schema_id)
        range_snapshots: tuple[Snapshot, ...] = ()
        if isinstance(request.at, InRange):
            range_snapshots = await self._find_range(tx, head, request.at, changelog=request.changelog)
            snapshot: Snapshot | None = range_snapshots[-1]
        else:
            snapshot = await _find_snapshot(tx, head, request.at)
        schema = await _find_schema(tx, found, snapshot, request)
        header = PlanHeader(as_of(found.info, schema), schema, {schema.schema_id: schema}, snapshot, range_snapshots)
        if snapshot is None:
            return header, None, None
        header = await _with_schemas(tx, found, header, [each.schema_id for each in range_snapshots or (snapshot,)])
        wanted = await make_filter(tx, head, schema, request, matches)
        if wanted is None:
            return None
        if wanted.surely_empty:
            return header, None, None
        if isinstance(request.at, InRange):
            query = wanted.query(added_after=request.at.after, added_until=request.at.until)
            if request.log:
                entries = await load_log_files(tx, query, range_snapshots)
                header = await _with_schemas(tx, found, header, entries.column("schema_id").unique().to_pylist())
                return header, _Rows(entries, wanted, is_log=True), None
            load = tx.load_changelog_files if request.changelog else tx.load_files
            return header, _Rows(await load(query), wanted), None
        if request.baseline and snapshot.is_changelog_deferred:
            query = wanted.query(baseline_at=snapshot.snapshot_id)
            return header, _Rows(_without_deletion_vectors(await tx.load_files(query)), wanted), None
        if request.below_bytes or request.added_after:
            query = replace(
                wanted.query(live_at=snapshot.snapshot_id, added_after=request.added_after),
                below_bytes=request.below_bytes,
            )
            return header, _Rows(await tx.load_files(query), wanted), None
        if _is_narrow(wanted, snapshot, head):
            query = wanted.query(live_at=snapshot.snapshot_id)
            return header, _Rows(await tx.load_files(query), wanted), None
        return header, None, await prepare_chunks(tx, head.table_id, snapshot.snapshot_id, wanted)

    async def _find_range(
        self, tx: Transaction, head: TableHead, at: InRange, *, changelog: bool
    ) -> tuple[Snapshot, ...]:
        if at.until - at.after > self._limits.max_range_snapshots:
            raise invalid(
                "range",
                f"{at.until - at.after} snapshots",
                f"Ask for at most {self._limits.max_range_snapshots} at once, one range after the other.",
            )
        if changelog:
            # Changelogs may live longer than the other records of their snapshots.
            head = replace(head, earliest_snapshot_id=head.earliest_change_id)
        check_retained(head, at.until)
        check_retained(head, at.after + 1)
        found = await tx.list_snapshots(head.table_id, at.after, at.until, at.until - at.after)
        if len(found) < at.until - at.after:
            raise to_overtaken(head)
        return tuple(found)


async def _find_schema(
    tx: Transaction, table: TableRecord, snapshot: Snapshot | None, request: PlanRequest
) -> TableSchema:
    """The schema to read with.

    A reader that names a state reads it with the schema of that time, all others with the current schema: also a range,
    so that rows of before a change and of after it come with the same columns.
    """
    current = table.info.schema
    as_it_was = isinstance(request.at, AtSnapshot | AtTime | AtTag)
    if snapshot is None or not as_it_was or snapshot.schema_id == current.schema_id:
        return current
    return (await tx.find_schemas(table.table_id, [snapshot.schema_id]))[snapshot.schema_id]


async def _with_schemas(
    tx: Transaction, table: TableRecord, header: PlanHeader, schema_ids: Iterable[int]
) -> PlanHeader:
    """The header with more versions of the schema; a table can have thousands of wide ones, so not with all."""
    more = sorted(set(schema_ids) - header.file_schemas.keys())
    if not more:
        return header
    return replace(header, file_schemas={**header.file_schemas, **await tx.find_schemas(table.table_id, more)})


async def _check_not_overtaken(
    tx: Transaction, request: PlanRequest, snapshot: Snapshot, chunks: ChunkPlan | None
) -> None:
    """Check after all other statements that everything they read was complete.

    Entries disappear only from a dropped table, from below the earliest snapshot unless a tag retains them, and where
    packed chunks already account for them.

    Raises:
        TransactionAborted: Something was missing; the plan is made again, or refused then.
    """
    head = await find_head(tx, request.table_uuid)
    if isinstance(request.at, InRange):
        earliest = head.earliest_change_id if request.changelog else head.earliest_snapshot_id
        is_kept = request.at.after + 1 >= earliest
    else:
        is_kept = snapshot.snapshot_id >= head.earliest_snapshot_id or await tx.has_tag(
            head.table_id, snapshot.snapshot_id
        )
    if is_kept and chunks is not None and 0 < chunks.packed_until < head.earliest_snapshot_id:
        is_kept = (await tx.find_chunks(head.table_id)).packed_until == chunks.packed_until
    if not is_kept:
        raise to_overtaken(head)


async def _find_snapshot(tx: Transaction, head: TableHead, at: AtSnapshot | AtTime | AtTag | None) -> Snapshot | None:
    latest = head.latest_snapshot_id
    if isinstance(at, AtTime):
        return await _find_snapshot_at(tx, head, at.timestamp_ms)
    if isinstance(at, AtTag):
        at = AtSnapshot((await load_tag(tx, head, at.name)).snapshot_id)
    snapshot_id = latest if at is None else at.snapshot_id
    return await load_retained(tx, head, snapshot_id) if snapshot_id else None


async def _find_snapshot_at(tx: Transaction, head: TableHead, timestamp_ms: int) -> Snapshot:
    found = await tx.find_snapshot_at(head.table_id, timestamp_ms)
    if found is None:
        # Snapshots with a tag may be older, but are found only by their number or tag.
        first = await tx.list_snapshots(head.table_id, head.earliest_snapshot_id - 1, head.latest_snapshot_id, 1)
        remedy = (
            f"the earliest one kept is {first[0].snapshot_id}, of {show_time(first[0].committed_at_ms)}"
            if first
            else "it has no snapshot yet"
        )
        raise NotFound(
            f"{head.name} has no snapshot at or before {show_time(timestamp_ms)}; {remedy}.",
            reason="SNAPSHOT_NOT_FOUND",
            metadata={"table": head.name, "timestamp_ms": str(timestamp_ms)},
        )
    if found.snapshot_id < head.earliest_snapshot_id:
        raise to_expired(head, found.snapshot_id)
    return found


def _without_deletion_vectors(entries: pa.Table) -> pa.Table:
    """Files that stand apart from the files for which they name deletion vectors: readers merge them."""
    place = entries.schema.get_field_index("deletion_vector_path")
    return entries.set_column(place, entries.schema.field(place), pa.nulls(entries.num_rows, pa.string()))


def _is_narrow(wanted: FileFilter, snapshot: Snapshot, head: TableHead) -> bool:
    most = min(MIN_UNPACKED, _MAX_ROW_PLAN_FILES) if wanted.wants_all else _MAX_ROW_PLAN_FILES
    if snapshot.total_files <= most or wanted.partitions is not None:
        return True
    if wanted.buckets is None or head.bucket_count < 1:
        return False
    return snapshot.total_files * len(wanted.buckets) // head.bucket_count <= _MAX_ROW_PLAN_FILES


def _count_items(request: PlanRequest) -> int:
    """How many items of a request are checked one by one."""
    values = 0 if request.predicate is None else count_values(request.predicate)
    return values + len(request.buckets) + len(request.levels) + len(request.partitions)


def _check_request(request: PlanRequest) -> PreparedPredicate | None:
    check_uuid("table_uuid", request.table_uuid)
    match request.at:
        case AtSnapshot(snapshot_id):
            check_number("snapshot_id", snapshot_id, 1)
        case AtTime(timestamp_ms):
            check_number("timestamp_ms", timestamp_ms, *BOUNDS["PlanRequest.timestamp_ms"])
        case AtTag(name):
            check_tag_name("tag", name)
        case InRange(after, until):
            check_number("range.after", after, 0)
            check_number("range.until", until, after + 1)
    if request.changelog and not isinstance(request.at, InRange):
        raise invalid("changelog", True, "A state has no changelog: ask for those of a range of snapshots.")
    if request.log:
        check_log_request(request)
    if request.baseline and isinstance(request.at, InRange):
        raise invalid("baseline", True, "Ask for a state: a range of snapshots has changelog files instead.")
    for name in ("below_bytes", "added_after"):
        value = getattr(request, name)
        check_number(name, value, 0)
        if value and isinstance(request.at, InRange):
            raise invalid(name, value, "A range says itself which snapshots added its files: leave it out.")
    for bucket in request.buckets:
        check_number("buckets", bucket, 0, 2**31 - 1)
    if request.levels and isinstance(request.at, InRange):
        raise invalid("levels", request.levels[:10], "A range lists what its snapshots added: leave it out.")
    for level in request.levels:
        check_number("levels", level, 0, 2**31 - 1)
    if request.with_statistics and request.log:
        raise invalid("with_statistics", True, "A plan of the log lists no statistics: leave it out.")
    if len(request.partitions) > _MAX_LISTED_PARTITIONS:
        raise invalid("partitions", f"{len(request.partitions)} partitions", "Give at most 100,000; or leave them out.")
    for partition in request.partitions:
        if len(partition) > MAX_PARTITION_BYTES:
            raise invalid("partitions", partition[:50], f"At most {MAX_PARTITION_BYTES} bytes are possible.")
    if request.first_key is not None and request.last_key is not None and request.first_key > request.last_key:
        raise InvalidArgument(
            f"first_key {request.first_key!r} is above last_key {request.last_key!r}. Swap them.",
            metadata={"field": "first_key", "value": request.first_key.hex()},
        )
    return None if request.predicate is None else prepare_predicate(request.predicate)


async def _no_parts() -> AsyncIterator[PlanChunkData]:
    nothing: tuple[PlanChunkData, ...] = ()
    for part in nothing:
        yield part
