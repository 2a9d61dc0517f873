"""What is refused before anything is looked up: field, value and remedy are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import (
    BucketRef,
    Change,
    CommitRequest,
    CompactionGroup,
    Fence,
    RemoveEverything,
    RemoveFiles,
    RemovePartitions,
    RemovePartitionValues,
    TableGuard,
    TimeWindow,
)
from lakelog.format.jobs.work import Pipeline
from lakelog.format.tables.files import ColumnStatistics
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.predicate import AllOf, Comparison, Operator, Predicate
from lakelog.format.tables.snapshot import SnapshotKind
from tests.support.metastore.making import make_file

T = "a" * 32
A = "b" * 32
OVERWRITE = SnapshotKind.OVERWRITE


def change(**fields: Any) -> Change:
    return Change(**{"table_uuid": T, "kind": SnapshotKind.APPEND, "schema_id": 0, "bucket_count": 1, **fields})


def commit(*changes: Change, **fields: Any) -> CommitRequest:
    return CommitRequest(**{"writer": "w", "identifier": 1, "changes": changes or (change(),), **fields})


def with_statistics(*columns: ColumnStatistics) -> CommitRequest:
    return commit(change(add_files=(make_file(A, statistics=columns),)), attempt_id=A)


BUCKET = BucketRef(b"", 0)


def compact(*groups: CompactionGroup, **fields: Any) -> CommitRequest:
    return commit(change(kind=SnapshotKind.COMPACT, groups=groups, **fields))


COMMITS: list[tuple[str, CommitRequest, str]] = [
    ("writer", commit(writer=""), "1 to 256 characters"),
    ("writer", commit(writer="x" * 257), "1 to 256 characters"),
    ("writer", commit(writer="a\x00b"), r"U\+0000"),
    ("writer", commit(writer="\ud800"), "surrogates"),
    ("identifier", commit(identifier=-1), "from 0 to"),
    ("identifier", commit(identifier=2**63), "to 9223372036854775807"),
    ("previous_identifier", commit(previous_identifier=1), "from -1 to 0"),
    ("epoch", commit(epoch=-1), "from 0"),
    ("attempt_id", commit(attempt_id="../x"), "32 lower-case hexadecimal"),
    ("fences", commit(fences=(Fence("a", 1), Fence("a", 2))), "each lease once"),
    ("fences.epoch", commit(fences=(Fence("a", 0),)), "from 1"),
    ("fences.lease", commit(fences=(Fence("", 1),)), "1 to 256"),
    ("changes", CommitRequest("w", 1, ()), "Give 1 to 256, one for each table"),
    ("changes", commit(change(), change()), "Name each table once"),
    ("table_uuid", commit(change(table_uuid="nope")), "32 lower-case hexadecimal"),
    ("schema_id", commit(change(schema_id=-1)), "from 0"),
    ("bucket_count", commit(change(bucket_count=2**31)), "to 2147483647"),
    ("base_snapshot_id", commit(change(base_snapshot_id=-1)), "from 0"),
    ("if_unchanged", commit(change(if_unchanged=-1)), "from 0 to"),
    ("if_snapshot", commit(guards=(TableGuard("0" * 32, -1),)), "from 0 to"),
    ("guards.table_uuid", commit(guards=(TableGuard("x", 1),)), "32 lower-case"),
    ("guards", commit(guards=(TableGuard("0" * 32, 1),) * 257), "Give at most 256"),
    ("unchanged_buckets", commit(change(unchanged_buckets=(BucketRef(b"", 0),))), "base_snapshot_id as well"),
    ("committed_after_ms", commit(change(window=TimeWindow(-1))), "from 0"),
    ("committed_until_ms", commit(change(window=TimeWindow(until_ms=-1))), "from 0"),
    ("committed_until_ms", commit(change(window=TimeWindow(5, 5))), "from 6"),
    ("watermark_ms", commit(change(watermark_ms=2**62)), "from -62135596800000 to 253402300799999"),
    ("remove", commit(change(remove=RemoveEverything())), "An APPEND removes nothing"),
    ("remove", commit(change(kind=SnapshotKind.COMPACT, remove=RemoveFiles((1,)))), "put them in groups"),
    ("groups", commit(change(groups=(CompactionGroup(BUCKET, (1,)),))), "Only a COMPACT rewrites"),
    ("groups", compact(), "Give 1 to 1000"),
    ("groups", compact(*[CompactionGroup(BUCKET, (n,)) for n in range(1, 1002)]), "Give 1 to 1000"),
    ("groups.inputs", compact(CompactionGroup(BUCKET)), "or leave the group out"),
    ("groups.inputs", compact(CompactionGroup(BUCKET, (0,))), "from 1"),
    ("groups.inputs", compact(CompactionGroup(BUCKET, (1, 2), moves=(2,))), "Name each file once"),
    ("groups.inputs", compact(CompactionGroup(BUCKET, (1,)), CompactionGroup(BUCKET, (1,))), "Name each file once"),
    ("groups.inputs", compact(CompactionGroup(BUCKET, tuple(range(1, 100_002)))), "at most 100000"),
    ("groups.bucket", compact(CompactionGroup(BucketRef(b"", -1), (1,))), "from 0"),
    ("groups.partition", compact(CompactionGroup(BucketRef(b"x" * 2049, 0), (1,))), "at most 2048"),
    ("groups.level", compact(CompactionGroup(BUCKET, (1,), level=128)), "from 0 to 127"),
    ("groups.output_count", compact(CompactionGroup(BUCKET, (1,), -1)), "from 0"),
    ("groups.output_count", compact(CompactionGroup(BUCKET, (1,), 1)), "The change has 0 such files"),
    ("groups.output_count", compact(CompactionGroup(BUCKET, (), 1, (1,)), add_files=(make_file(A),)), "no outputs"),
    (
        "groups.changelog_count",
        compact(CompactionGroup(BUCKET, (1,), changelog_count=2, emits_changelog=True)),
        "has 0 such files",
    ),
    ("groups.emits_changelog", compact(CompactionGroup(BUCKET, (1,), changelog_count=2)), "say that it emits"),
    ("groups.emits_changelog", compact(CompactionGroup(BUCKET, (1,), baseline=(2,))), "say that it emits"),
    (
        "groups.baseline",
        compact(CompactionGroup(BUCKET, (1,), emits_changelog=True, baseline=(0,))),
        "Give a number from 1",
    ),
    (
        "groups.baseline",
        compact(CompactionGroup(BUCKET, (1,), emits_changelog=True, baseline=(2, 2))),
        "Name each file once",
    ),
    ("level", compact(CompactionGroup(BUCKET, (1,), 1, level=2), add_files=(make_file(A),)), "so must '"),
    ("bucket", compact(CompactionGroup(BUCKET, (1,), 1), add_files=(make_file(A, bucket=1),)), "in the order of their"),
    ("allow_empty", compact(CompactionGroup(BUCKET, (1,)), allow_empty=True), "makes no snapshot"),
    (
        "unchanged_buckets",
        compact(CompactionGroup(BUCKET, (1,)), base_snapshot_id=0, unchanged_buckets=(BUCKET,)),
        "assumes no more than that its own files are there",
    ),
    (
        "deletion_vector_path",
        compact(CompactionGroup(BUCKET, (1,), 1), add_files=(make_file(A, deletion_vector_path=""),)),
        "stands in the places of its inputs",
    ),
    ("level", commit(change(add_files=(make_file(A, level=1),))), "is new and thus at level 0"),
    ("remove.file_ids", commit(change(kind=OVERWRITE, remove=RemoveFiles((1, 1)))), "Name each file once"),
    ("remove.file_ids", commit(change(kind=OVERWRITE, remove=RemoveFiles((0,)))), "from 1"),
    ("remove.partition_values", commit(change(kind=OVERWRITE, remove=RemovePartitionValues({}))), "at least one"),
    ("remove.partitions", commit(change(kind=OVERWRITE, remove=RemovePartitions((b"x" * 2049,)))), "at most 2048"),
    ("properties", commit(change(properties={str(n): "" for n in range(129)})), "at most 128"),
    ("properties", commit(change(properties={str(n): "x" * 1024 for n in range(100)})), "at most 65536 bytes"),
    ("properties['k']", commit(change(properties={"k": "a\x00"})), r"U\+0000"),
    ("path", commit(change(add_files=(make_file(A), make_file(A)))), "Name each file once"),
    ("path", commit(change(add_files=(make_file(A, path="x" * 901),))), "at most 900 characters together"),
    ("path", commit(change(add_files=(make_file(A, path=""),))), "Give parts of letters"),
    ("partition", commit(change(add_files=(make_file(A, partition=b"x" * 2049),))), "at most 2048"),
    ("add_files", commit(change(add_files=tuple(make_file(A, str(n)) for n in range(100_001)))), "at most 100000"),
    ("statistics.field_id", with_statistics(ColumnStatistics(0, 0, None, None)), "ids from 1"),
    ("statistics.field_id", with_statistics(*[ColumnStatistics(1, 0, None, None)] * 2), "each column"),
    ("statistics.null_count", with_statistics(ColumnStatistics(1, 11, None, None)), "has 10 rows"),
    ("statistics.min_value", with_statistics(ColumnStatistics(1, 0, b"b", b"a")), "above max_value"),
    ("statistics", with_statistics(ColumnStatistics(1, 0, b"a", b"b" * 300_000)), "shorten bounds"),
]


@pytest.mark.parametrize(("field", "request_", "message"), COMMITS)
def test_bad_commits(metastore: Metastore, field: str, request_: CommitRequest, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as error:
        metastore.commit(request_)
    assert error.value.metadata["field"] == field
    assert error.value.message.startswith(field)
    assert len(error.value.message) < 1000


def nested(depth: int) -> Predicate:
    predicate: Predicate = Comparison(1, Operator.IS_NULL)
    for _ in range(depth):
        predicate = AllOf((predicate,))
    return predicate


PLANS: list[tuple[PlanRequest, str]] = [
    (PlanRequest("x"), "32 lower-case"),
    (PlanRequest(T, at=AtSnapshot(0)), "snapshot_id is 0"),
    (PlanRequest(T, at=InRange(3, 3)), "range.until is 3. Give a number from 4"),
    (PlanRequest(T, at=InRange(-1, 3)), "range.after is -1"),
    (PlanRequest(T, buckets=(-1,)), "buckets is -1"),
    (PlanRequest(T, partitions=(b"x" * 5000,)), "2048"),
    (PlanRequest(T, first_key=b"b", last_key=b"a"), "Swap them"),
]


@pytest.mark.parametrize(("request_", "message"), PLANS)
def test_bad_plans(metastore: Metastore, request_: PlanRequest, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        metastore.plan(request_)


OTHERS: list[tuple[Callable[[Metastore], object], str]] = [
    (lambda m: m.stage_attempt([], "w"), "Name 1 to 256"),
    (lambda m: m.stage_attempt([T, T], "w"), "Name each table once"),
    (lambda m: m.stage_attempt(["x"], "w"), "32 lower-case"),
    (lambda m: m.stage_attempt([T], ""), "writer is ''"),
    (lambda m: m.abandon_attempt(""), "attempt_id is ''"),
    (lambda m: m.register_writer(""), "writer is ''"),
    (lambda m: m.get_writer_progress("w", "T"), "table_uuid is 'T'"),
    (lambda m: m.list_snapshots(T, after=-1), "after is -1"),
    (lambda m: m.get_table_by_uuid("'; --"), "32 lower-case"),
    (lambda m: m.acquire_lease("", "h", 5000), "lease is ''"),
    (lambda m: m.acquire_lease("l", "", 5000), "holder is ''"),
    (lambda m: m.acquire_lease("l", "h", 999), "from 1000 to 3600000"),
    (lambda m: m.renew_lease("l", 0, 5000), "epoch is 0"),
    (lambda m: m.report_pipeline(Pipeline("a b", "t", "", "running", None, "", None, 0, 0, ""), 1), "pipeline.name"),
    (lambda m: m.report_pipeline(Pipeline("p", "t", "", "asleep", None, "", None, 0, 0, ""), 1), "starting, running"),
    (lambda m: m.report_pipeline(Pipeline("p", "t", "", "running", None, "", -1, 0, 0, ""), 1), "pipeline.lag"),
    (lambda m: next(iter(m.watch([]))), "Name 1 to 1000"),
    (lambda m: next(iter(m.watch([WatchPosition(T, -1)]))), "positions.after is -1"),
    (lambda m: next(iter(m.watch([WatchPosition(T, 0, T)]))), "leave it empty"),
]


@pytest.mark.parametrize(("call", "message"), OTHERS)
def test_other_bad_requests(metastore: Metastore, call: Callable[[Metastore], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        call(metastore)
