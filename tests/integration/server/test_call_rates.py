"""A caller that makes too many calls a second is refused, waits, and is served; other callers and commits go on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from metastore.server.edge.call_limits import CallLimits
from tests.integration.server.running_server import RunningServer

Start = Callable[..., RunningServer]

RATE = 20
REFUSED = "lakelog_metastore_rpc_calls_total"
PATIENT = RetryPolicy(first_backoff_s=0.05, max_backoff_s=0.5, total_s=20)


def calls_at_once(target: str, count: int) -> list[grpc.StatusCode]:
    """How some calls over one connection end that do not wait for each other."""
    with grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        method: Any = channel.unary_unary("/lakelog.rpc.v1.CatalogService/ListDatabases")
        running = [method.future(b"", timeout=30) for _ in range(count)]
        return [each.code() for each in running]


def test_calls_above_the_rate_are_refused_and_others_are_served(start_server: Start) -> None:
    server = start_server(limits=CallLimits(call_rate=RATE))
    codes = calls_at_once(server.target, 200)
    assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    # The burst of two seconds, and what came in while the calls ran.
    assert 2 * RATE <= codes.count(grpc.StatusCode.OK) < 150
    assert calls_at_once(server.target, RATE) == [grpc.StatusCode.OK] * RATE, "another connection"


def test_control_without_the_limit_all_of_these_calls_are_processed(start_server: Start) -> None:
    server = start_server(limits=CallLimits(call_rate=1_000_000))
    assert calls_at_once(server.target, 200) == [grpc.StatusCode.OK] * 200


def test_clients_that_are_refused_wait_and_are_served_within_their_deadline(
    start_server: Start, connect: Callable[..., GrpcMetastore]
) -> None:
    server = start_server(limits=CallLimits(call_rate=RATE))
    client = connect(server.target, retries=PATIENT)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: client.list_databases(), range(3 * RATE)))
    assert server.use_cases.calls.count("list_databases") == 3 * RATE
    counted = server.registry.get_sample_value(REFUSED, {"method": "ListDatabases", "outcome": "TOO_MANY_CALLS"})
    assert counted, "no call was refused"


def test_commits_have_a_rate_of_their_own(start_server: Start, connect: Callable[..., GrpcMetastore]) -> None:
    server = start_server(limits=CallLimits(call_rate=1))
    client = connect(server.target)
    change = Change("a" * 32, SnapshotKind.APPEND, 0, 1)
    client.list_databases()
    client.list_databases()
    for identifier in range(1, 8):
        client.commit(CommitRequest("w", identifier, (change,)))
    assert server.use_cases.commit_order == list(range(1, 8))
    assert server.registry.get_sample_value(REFUSED, {"method": "Commit", "outcome": "TOO_MANY_CALLS"}) is None
