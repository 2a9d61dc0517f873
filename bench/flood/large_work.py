"""Requests that are allowed and large: commits of many files, plans with many values. Each runs until it is ended."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from typing import Any, Final

import grpc
import numpy as np
import pyarrow as pa

from bench.measure import WrongAnswerError
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.keys.encoding import encode_values
from lakelog.format.tables.files import ColumnStatistics, DataFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.rpc.commit import to_proto_commit_request
from lakelog.rpc.plan import to_proto_plan_request
from lakelog.rpc.v1 import snapshots_pb2

_SERVICE: Final = "/lakelog.rpc.v1.SnapshotService/"
_OPTIONS: Final = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
_COLUMN: Final = 1
_IDS_OF_A_FILE: Final = 10
_PLANNED_FILES: Final = 60_000
_IN_A_COMMIT: Final = 30_000
_PACKING_S: Final = 8
"""After this long the files of a commit are packed into chunks."""


def plan_with_in(target: str, table: str, begun: Event) -> None:
    """Plans with an IN of 20,000 values on 60,000 files, two at a time."""
    _plan(target, table, begun, Comparison(_COLUMN, Operator.IN, _pick(20_000)))


def plan_with_any_of(target: str, table: str, begun: Event) -> None:
    """Plans with an OR of 2,000 equalities on 60,000 files, two at a time."""
    equalities = tuple(Comparison(_COLUMN, Operator.IN, (value,)) for value in _pick(2000))
    _plan(target, table, begun, AnyOf(equalities))


def plan_with_ranges(target: str, table: str, begun: Event) -> None:
    """Plans with an OR of 450 ranges on 60,000 files, nearly as many comparisons as a plan may have."""
    ranges = tuple(
        AllOf(
            (
                Comparison(_COLUMN, Operator.GREATER_OR_EQUAL, (value,)),
                Comparison(_COLUMN, Operator.LESS_OR_EQUAL, (value,)),
            )
        )
        for value in _pick(450)
    )
    _plan(target, table, begun, AnyOf(ranges))


def commit_30_000(target: str, table: str, begun: Event) -> None:
    """Commits of 30,000 files, one after the other."""
    _commit_again_and_again(target, table, begun, 30_000)


def commit_100_000(target: str, table: str, begun: Event) -> None:
    """Commits of 100,000 files, the most that one may have, one after the other."""
    _commit_again_and_again(target, table, begun, 100_000)


def _pick(count: int) -> tuple[bytes, ...]:
    ids = np.random.default_rng(1).choice(_PLANNED_FILES * _IDS_OF_A_FILE, count, replace=False)
    return tuple(_encode(ids))


def _plan(target: str, table: str, begun: Event, predicate: Predicate) -> None:
    metastore = GrpcMetastore(target)
    for first in range(0, _PLANNED_FILES, _IN_A_COMMIT):
        with grpc.insecure_channel(target, options=_OPTIONS) as channel:
            _send_commit(channel, _make_commit(metastore, table, first, _IN_A_COMMIT))
    time.sleep(_PACKING_S)
    request = to_proto_plan_request(PlanRequest(table, predicate=predicate)).SerializeToString()
    with grpc.insecure_channel(target, options=_OPTIONS) as channel:
        plan: Any = channel.unary_stream(f"{_SERVICE}Plan")
        for _ in plan(request):
            pass
        begun.set()
        while True:
            for running in [plan(request) for _ in range(2)]:
                for _ in running:
                    pass


def _commit_again_and_again(target: str, table: str, begun: Event, count: int) -> None:
    metastore = GrpcMetastore(target)
    with grpc.insecure_channel(target, options=_OPTIONS) as channel:
        for number in itertools.count():
            request = _make_commit(metastore, table, number * count, count)
            begun.set()
            _send_commit(channel, request)


def _make_commit(metastore: GrpcMetastore, table: str, first: int, count: int) -> bytes:
    attempt = metastore.stage_attempt([table], "flood").attempt_id
    files = _make_files(attempt, first, count)
    change = Change(table, SnapshotKind.APPEND, 0, -1, tuple(files))
    return to_proto_commit_request(CommitRequest("flood", first, (change,), attempt)).SerializeToString()


def _send_commit(channel: grpc.Channel, request: bytes) -> None:
    commit: Any = channel.unary_unary(f"{_SERVICE}Commit")
    answer = snapshots_pb2.CommitResponse.FromString(commit(request, timeout=60))
    if not answer.results[0].snapshot_id:
        raise WrongAnswerError("a commit of many files made no snapshot")


def _make_files(attempt: str, first: int, count: int) -> list[DataFile]:
    starts = np.arange(first, first + count, dtype=np.int64) * _IDS_OF_A_FILE
    return [
        DataFile(
            path=f"data/{attempt}/{uuid.uuid4().hex}.parquet",
            partition=b"",
            bucket=0,
            level=0,
            row_count=_IDS_OF_A_FILE,
            delete_count=0,
            size_bytes=100_000_000,
            min_key=None,
            max_key=None,
            schema_id=0,
            # As for a table of five columns; only the first one matters here.
            statistics=tuple(ColumnStatistics(column, 0, low, high) for column in range(1, 6)),
        )
        for low, high in zip(_encode(starts), _encode(starts + _IDS_OF_A_FILE - 1), strict=True)
    ]


def _encode(ids: Sequence[int] | Any) -> list[bytes]:
    encoded: list[bytes] = encode_values(pa.array(ids, pa.int64())).to_pylist()
    return encoded


LARGE_WORK: Final = {
    "plan-in": plan_with_in,
    "plan-any-of": plan_with_any_of,
    "plan-ranges": plan_with_ranges,
    "commit-30000": commit_30_000,
    "commit-100000": commit_100_000,
}
