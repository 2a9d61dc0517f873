"""Every value of the format comes back from the wire as it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from hypothesis import given, settings

from lakelog.format.commit.request import (
    BucketRef,
    Change,
    ChangeResult,
    CommitRequest,
    CommitResult,
    CompactionGroup,
    DroppedGroup,
    Fence,
    RemoveEverything,
    RemoveFiles,
    RemovePartitions,
    RemovePartitionValues,
    RestoreState,
    TableGuard,
    TimeWindow,
    WriterProgress,
)
from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.format.retention.tag import Tag
from lakelog.format.tables.files import ColumnStatistics, DataFile
from lakelog.format.tables.plan import AtSnapshot, AtTag, AtTime, InRange, PlanHeader, PlanRequest
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.snapshot import ChangelogState, LogContent, Snapshot, SnapshotKind
from lakelog.format.tables.table import DatabaseInfo, TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.rpc.commit import (
    from_proto_commit_request,
    from_proto_commit_result,
    from_proto_writer_progress,
    to_proto_commit_request,
    to_proto_commit_result,
    to_proto_writer_progress,
)
from lakelog.rpc.job import (
    from_proto_lease_grant,
    from_proto_pipeline,
    to_proto_lease_grant,
    to_proto_pipeline,
)
from lakelog.rpc.plan import (
    from_proto_plan_header,
    from_proto_plan_request,
    to_proto_plan_header,
    to_proto_plan_request,
)
from lakelog.rpc.retention import from_proto_tag, to_proto_tag
from lakelog.rpc.schema import from_proto_schema, to_proto_schema
from lakelog.rpc.snapshot import from_proto_snapshot, to_proto_snapshot
from lakelog.rpc.table import (
    from_proto_database,
    from_proto_table,
    from_proto_table_name,
    to_proto_database,
    to_proto_table,
    to_proto_table_name,
)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
octets = st.binary(max_size=12)


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def tuples(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=3).map(tuple)


properties = st.dictionaries(text, text, max_size=3)
kinds = st.sampled_from(SnapshotKind)
changelog_states = st.sampled_from(ChangelogState)
log_contents = st.sampled_from(LogContent)
sent_offsets = optional(st.dictionaries(int32, int64, max_size=3))


def without_generation(change: Change) -> Change:
    """What was not sent was sent to no generation."""
    return change if change.sent_offsets is not None else dataclasses.replace(change, sent_generation=0)


statistics = st.builds(ColumnStatistics, int32, int64, optional(octets), optional(octets))
files = st.builds(
    DataFile,
    path=text,
    partition=octets,
    bucket=int32,
    level=int32,
    row_count=int64,
    delete_count=int64,
    size_bytes=int64,
    min_key=optional(octets),
    max_key=optional(octets),
    schema_id=int32,
    statistics=tuples(statistics),
)
removals = st.one_of(
    st.builds(RemoveFiles, tuples(int64)),
    st.just(RemoveEverything()),
    st.builds(RemovePartitions, tuples(octets)),
    st.builds(RemovePartitionValues, st.dictionaries(text, octets, max_size=3)),
    st.builds(RestoreState, int64),
    st.builds(RestoreState, st.none(), text),
)
changes = st.builds(
    Change,
    table_uuid=text,
    kind=kinds,
    schema_id=int32,
    bucket_count=int32,
    add_files=tuples(files),
    remove=optional(removals),
    base_snapshot_id=optional(int64),
    unchanged_buckets=tuples(st.builds(BucketRef, octets, int32)),
    if_unchanged=optional(int64),
    watermark_ms=optional(int64),
    properties=properties,
    allow_empty=st.booleans(),
    changelog=changelog_states,
    changelog_files=tuples(files),
    groups=tuples(
        st.builds(
            CompactionGroup,
            st.builds(BucketRef, octets, int32),
            tuples(int64),
            int32,
            tuples(int64),
            int32,
            int32,
            vector_files=tuples(int64),
            deletion_vector_path=text,
            covered_files=tuples(int64),
        )
    ),
    window=st.builds(TimeWindow, optional(int64), optional(int64)),
    log=log_contents,
    log_files=tuples(files),
    sent_offsets=sent_offsets,
    sent_generation=int32,
).map(without_generation)
commit_requests = st.builds(
    CommitRequest,
    writer=text,
    identifier=int64,
    changes=tuples(changes),
    attempt_id=text,
    previous_identifier=optional(int64),
    epoch=int64,
    fences=tuples(st.builds(Fence, text, int64)),
    guards=tuples(st.builds(TableGuard, text, int64)),
)
dropped_groups = st.builds(DroppedGroup, int32, text, text, optional(int64), optional(int64), text)
commit_results = st.builds(
    CommitResult,
    text,
    tuples(st.builds(ChangeResult, text, optional(int64), text, int64, tuples(dropped_groups))),
)
writer_progress = st.builds(WriterProgress, optional(int64), optional(int64), properties, int64)
numbers = [pa.int8(), pa.int64(), pa.float64(), pa.bool_(), pa.decimal128(38, 9)]
others = [pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
arrow_types = st.recursive(
    st.sampled_from([*numbers, *others]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda type_: pa.map_(pa.string(), type_)),
        inner.map(lambda type_: pa.struct([pa.field("a", type_), pa.field("b", pa.int32(), nullable=False)])),
    ),
    max_leaves=4,
)
arrow_schemas = st.lists(st.tuples(text, arrow_types, st.booleans()), max_size=4).map(
    lambda fields: assign_field_ids(pa.schema([pa.field(name, type_, null) for name, type_, null in fields]))
)
schemas = st.builds(TableSchema, int32, arrow_schemas, tuples(text), tuples(text), optional(int64), text)
snapshots = st.builds(
    Snapshot,
    snapshot_id=int64,
    snapshot_uuid=text,
    parent_uuid=text,
    kind=kinds,
    schema_id=int32,
    committed_at_ms=int64,
    watermark_ms=optional(int64),
    total_rows=int64,
    total_files=int64,
    total_bytes=int64,
    added_rows=int64,
    added_files=int32,
    removed_files=int32,
    writer=text,
    identifier=int64,
    properties=properties,
    changelog=changelog_states,
    co_committed=st.dictionaries(text, int64, max_size=3),
    log=log_contents,
    attempt_id=text,
    sent_offsets=sent_offsets,
)
tables = st.builds(
    TableInfo,
    table_uuid=text,
    name=st.builds(TableName, text, text),
    location=text,
    schema=schemas,
    options=properties,
    latest_snapshot_id=int64,
    created_at_ms=int64,
    comment=text,
)
comparisons = st.builds(Comparison, int32, st.sampled_from(Operator), tuples(octets))
predicates: st.SearchStrategy[Predicate] = st.recursive(
    comparisons, lambda inner: st.builds(AllOf, tuples(inner)) | st.builds(AnyOf, tuples(inner)), max_leaves=6
)
plan_requests = st.builds(
    PlanRequest,
    table_uuid=text,
    at=st.one_of(
        st.none(),
        st.builds(AtSnapshot, int64),
        st.builds(AtTime, int64),
        st.builds(AtTag, text),
        st.builds(InRange, int64, int64),
    ),
    predicate=optional(predicates),
    buckets=tuples(int32),
    partitions=tuples(octets),
    first_key=optional(octets),
    last_key=optional(octets),
    changelog=st.booleans(),
    log=st.booleans(),
)
plan_headers = st.builds(
    PlanHeader,
    table=tables,
    schema=schemas,
    file_schemas=st.lists(schemas, max_size=3).map(lambda found: {schema.schema_id: schema for schema in found}),
    snapshot=optional(snapshots),
    range_snapshots=tuples(snapshots),
)
pipelines = st.builds(
    Pipeline,
    name=text,
    table=text,
    source=text,
    state=text,
    last_batch_id=optional(int64),
    position=text,
    lag=optional(int64),
    total_rows=int64,
    dead_letter_rows=int64,
    last_error=text,
    reported_at_ms=int64,
    holder=text,
)

TRANSLATIONS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Message], Callable[[Any], Any]]] = {
    "commit request": (commit_requests, to_proto_commit_request, from_proto_commit_request),
    "commit result": (commit_results, to_proto_commit_result, from_proto_commit_result),
    "writer progress": (writer_progress, to_proto_writer_progress, from_proto_writer_progress),
    "snapshot": (snapshots, to_proto_snapshot, from_proto_snapshot),
    "table": (tables, to_proto_table, from_proto_table),
    "table name": (st.builds(TableName, text, text), to_proto_table_name, from_proto_table_name),
    "database": (st.builds(DatabaseInfo, text, text, int32), to_proto_database, from_proto_database),
    "plan request": (plan_requests, to_proto_plan_request, from_proto_plan_request),
    "plan header": (plan_headers, to_proto_plan_header, from_proto_plan_header),
    "lease grant": (
        st.builds(LeaseGrant, st.booleans(), int64, text, int64),
        to_proto_lease_grant,
        from_proto_lease_grant,
    ),
    "tag": (st.builds(Tag, text, int64, int64, int64, int64), to_proto_tag, from_proto_tag),
    "pipeline": (pipelines, to_proto_pipeline, from_proto_pipeline),
}


@pytest.mark.parametrize("noun", TRANSLATIONS)
def test_the_wire_changes_nothing(noun: str) -> None:
    strategy, to_proto, from_proto = TRANSLATIONS[noun]

    @settings(max_examples=60, deadline=None)
    @given(strategy)
    def check(value: Any) -> None:
        message = to_proto(value)
        again = type(message).FromString(message.SerializeToString())
        assert from_proto(again) == value

    check()


def test_field_ids_and_nullability_cross_the_wire() -> None:
    # Equality of Arrow schemas looks past metadata, so the ids are compared by themselves.
    arrow = assign_field_ids(pa.schema([pa.field("a", pa.struct([pa.field("b", pa.list_(pa.int64()))]), False)]))
    table = TableInfo("u", TableName("d", "t"), "file:///x/", TableSchema(0, arrow), {}, 0, 0)
    again = from_proto_table(to_proto_table(table))
    assert again.schema.arrow.equals(arrow, check_metadata=True)


@pytest.mark.parametrize(("made_ms", "by"), [(None, ""), (0, ""), (5, "alice")])
def test_the_origin_of_a_schema_crosses_the_wire(made_ms: int | None, by: str) -> None:
    # Schemas are equal whenever they were made, so this is compared by itself, too.
    schema = TableSchema(0, assign_field_ids(pa.schema([("a", pa.int64())])), created_at_ms=made_ms, created_by=by)
    again = from_proto_schema(to_proto_schema(schema))
    assert (again.created_at_ms, again.created_by) == (made_ms, by)


def test_an_absent_bound_and_an_empty_one_differ() -> None:
    column = ColumnStatistics(1, 0, b"", None)
    file = DataFile("p", b"", 0, 0, 1, 0, 1, b"", None, 0, (column,))
    request = CommitRequest("w", 1, (Change("t", SnapshotKind.APPEND, 0, 1, (file,)),))
    (change,) = from_proto_commit_request(to_proto_commit_request(request)).changes
    assert change.add_files[0].min_key == b""
    assert change.add_files[0].max_key is None
    assert change.add_files[0].statistics == (column,)
    assert change.add_files[0].deletion_vector_path is None
