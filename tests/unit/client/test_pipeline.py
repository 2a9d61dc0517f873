"""Answers on a commit stream that mean nothing: nobody waits for ever, and nothing is said to have failed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog.client.grpc.pipeline import GrpcCommitPipeline
from lakelog.clock import SystemClock
from lakelog.errors import OutcomeUnknown
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.rpc.v1 import snapshots_pb2, types_pb2

DAMAGED = types_pb2.Status(
    code=9,
    message="refused",
    details=[types_pb2.StatusDetail(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff\xff")],
)


class _Answers:
    """A stream that answers each request with the same message."""

    def __init__(self, requests: Iterator[Any], answer: snapshots_pb2.CommitStreamResponse) -> None:
        self._requests = requests
        self._answer = answer

    def __iter__(self) -> Iterator[snapshots_pb2.CommitStreamResponse]:
        for _ in self._requests:
            yield self._answer

    def cancel(self) -> None:
        pass


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (snapshots_pb2.CommitStreamResponse(failed=DAMAGED), "cannot be read"),
        (snapshots_pb2.CommitStreamResponse(), "says nothing"),
    ],
    ids=["damaged", "empty"],
)
def test_an_answer_that_means_nothing_leaves_the_outcome_open(
    answer: snapshots_pb2.CommitStreamResponse, said: str
) -> None:
    stubs = SimpleNamespace(CommitStream=lambda requests, metadata: _Answers(requests, answer))
    connection: Any = SimpleNamespace(
        session=lambda fresh, max_unavailable_s: SimpleNamespace(methods=stubs),
        call_metadata=(),
        answered=lambda session: None,
        target="db:7450",
    )
    pipeline = GrpcCommitPipeline(connection, max_in_flight=1, stall_s=5, clock=SystemClock())
    change = Change(table_uuid="0" * 32, kind=SnapshotKind.APPEND, schema_id=0, bucket_count=-1, allow_empty=True)
    # Twice, in one slot: the first one must have given it back.
    for number in (1, 2):
        with pytest.raises(OutcomeUnknown, match=said):
            pipeline.submit(CommitRequest("w", number, (change,))).result(timeout=5)
    pipeline.close()
