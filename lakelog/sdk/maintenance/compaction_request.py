"""Compaction on demand: this module plans the work and requests jobs for it; compactors do the jobs.

    choice of partitions -> plan of the newest snapshot -> each bucket planned (pure) -> jobs -> wait until they end

Nothing here compacts. The plan only says which buckets are worth a job, and why, for people. A compactor that takes a
job plans again with the files that are live then.

Why each step can be repeated: planning changes nothing, and a second request for a job that is due already only raises
its number of requests. A request stays when its caller goes away; a caller that waits again requests again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.compaction.requested import RequestedWork, plan_requested
from lakelog.format.jobs.job import COMPACT, FULL, MINOR, REQUEST_PRIORITY, STRATEGY, Job, to_bucket_scope
from lakelog.format.tables.plan import AtSnapshot, Plan
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, FULL_COMPACTION
from lakelog.options.values import TableOptions
from lakelog.sdk.maintenance.compaction_choice import PartitionChoice, to_choice
from lakelog.sdk.maintenance.compaction_result import BucketCompaction, CompactionResult, CompactionState

_MAX_REQUESTED: Final = 4000
"""Jobs that one call to the metastore makes due."""


@dataclass(frozen=True)
class PlannedCompaction:
    """What a compaction would do.

    Args:
        info: The table.
        strategy: `full` or `minor`.
        result: The buckets, `nothing` or `planned`.
        scopes: The scope of each bucket's job.
    """

    info: TableInfo
    strategy: str
    result: CompactionResult
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class RequestedCompaction:
    """A compaction that was requested.

    Args:
        info: The table.
        result: The buckets, `nothing` or `requested`.
        jobs: The jobs as they were at the request, by index of the bucket.
    """

    info: TableInfo
    result: CompactionResult
    jobs: Mapping[int, Job]


def plan_compaction(
    metastore: Metastore, info: TableInfo, *, full: bool, partitions: Any = None, where: Any = None
) -> PlannedCompaction:
    """Finds out what a compaction of a table would do; blocks on the metastore and changes nothing.

    Args:
        metastore: Lists the files.
        info: The table.
        full: Everything, whatever its sizes; else what is due or at level 0.
        partitions: As of `lakelog.sdk.maintenance.compaction_choice.to_choice`.
        where: As of `to_choice`.

    Raises:
        InvalidArgument: An argument does not fit the table.
        NotFound: A named partition has no files, or the table was dropped.
    """
    choice = to_choice(info, partitions, where)
    plan = metastore.plan(choice.to_request())
    planned = _plan_buckets(plan, _list_gone(metastore, plan, choice) if full else plan.files.slice(0, 0), choice, full)
    fields = [info.schema.arrow.field(name) for name in info.schema.partition_by]
    result = CompactionResult(
        str(plan.table.name),
        plan.snapshot.snapshot_id if plan.snapshot else None,
        pa.schema(fields),
        tuple(bucket for _, bucket in planned),
    )
    return PlannedCompaction(plan.table, FULL if full else MINOR, result, tuple(scope for scope, _ in planned))


def request_compaction(metastore: Metastore, planned: PlannedCompaction) -> RequestedCompaction:
    """Makes jobs due for the buckets that need work. Idempotent, except that the work is done again.

    Raises:
        NotFound: The table was dropped.
    """
    wanted = [place for place, bucket in enumerate(planned.result.buckets) if bucket.state is CompactionState.PLANNED]
    jobs: dict[int, Job] = {}
    for start in range(0, len(wanted), _MAX_REQUESTED):
        places = wanted[start : start + _MAX_REQUESTED]
        found = metastore.request_jobs(
            planned.info.table_uuid,
            COMPACT,
            [planned.scopes[place] for place in places],
            {STRATEGY: planned.strategy},
            priority=REQUEST_PRIORITY,
        )
        jobs |= zip(places, found, strict=True)
    buckets = tuple(
        replace(bucket, state=CompactionState.REQUESTED, job_id=jobs[place].job_id) if place in jobs else bucket
        for place, bucket in enumerate(planned.result.buckets)
    )
    return RequestedCompaction(planned.info, replace(planned.result, buckets=buckets), jobs)


def _list_gone(metastore: Metastore, plan: Plan, choice: PartitionChoice) -> pa.Table:
    """Files that streams have shown and that were replaced since; full compactions emit their changes (3.6)."""
    if plan.snapshot is None or TableOptions(plan.table.options).get(CHANGELOG_PRODUCER) != FULL_COMPACTION:
        return plan.files.slice(0, 0)
    at = AtSnapshot(plan.snapshot.snapshot_id)
    baseline = metastore.plan(replace(choice.to_request(), at=at, baseline=True)).files
    return baseline.filter(pc.invert(pc.is_in(baseline["file_id"], value_set=plan.files["file_id"].combine_chunks())))


def _plan_buckets(
    plan: Plan, gone: pa.Table, choice: PartitionChoice, full: bool
) -> list[tuple[str, BucketCompaction]]:
    """Returns the scope of each chosen bucket and the work on it, by partition and number. Pure.

    Args:
        plan: All live files.
        gone: Files that are not live, but whose changes a compaction of their bucket still emits.
        choice: The chosen partitions.
        full: As of `plan_compaction`.
    """
    every = plan.files
    if gone.num_rows:
        every = pa.concat_tables([every, gone]).sort_by([("partition", "ascending"), ("bucket", "ascending")])
    if plan.snapshot is None or every.num_rows == 0:
        choice.pick(())
        return []
    partitions = every["partition"].combine_chunks().dictionary_encode()
    known: list[bytes] = partitions.dictionary.to_pylist()
    values = choice.pick(known)
    gone_ids = gone["file_id"].combine_chunks()
    found = []
    for start, end in _split_buckets(partitions.indices.to_numpy(), every["bucket"].to_numpy()):
        partition = known[partitions.indices[start].as_py()]
        if partition not in values:
            continue
        files = every.slice(start, end - start)
        number: int = files["bucket"][0].as_py()
        has_gone = False
        if len(gone_ids):
            is_gone = pc.is_in(files["file_id"], value_set=gone_ids)
            has_gone, files = pc.any(is_gone).as_py(), files.filter(pc.invert(is_gone))
        work: RequestedWork | NoPlan = NoPlan("The bucket has no files.")
        if files.num_rows:
            work = plan_requested(files, plan.table, full=full, as_of_ms=plan.snapshot.committed_at_ms)
        if isinstance(work, NoPlan) and has_gone:
            work = RequestedWork(0, 0, "Changes of replaced rows are to be emitted.")
        is_nothing = isinstance(work, NoPlan)
        bucket = BucketCompaction(
            values[partition],
            number,
            files.num_rows,
            int(files["size_bytes"].to_numpy().sum()),
            CompactionState.NOTHING if is_nothing else CompactionState.PLANNED,
            work.reason if isinstance(work, NoPlan) else work.why,
        )
        found.append((to_bucket_scope(partition, number), bucket))
    return found


def _split_buckets(partitions: np.ndarray[Any, Any], buckets: np.ndarray[Any, Any]) -> Iterator[tuple[int, int]]:
    """Where the files of each bucket begin and end; in a plan they stand next to each other."""
    changes = np.flatnonzero((partitions[1:] != partitions[:-1]) | (buckets[1:] != buckets[:-1])) + 1
    bounds = [0, *changes.tolist(), len(partitions)]
    yield from pairwise(bounds)
