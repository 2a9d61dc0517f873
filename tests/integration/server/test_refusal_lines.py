"""A flood of refused calls writes few log lines, and still says who was refused; what took effect has all its lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import PermissionDenied
from lakelog.serving.access import Access, parse_token_file
from lakelog.serving.edge import refusal_lines
from lakelog.serving.edge.refusal_lines import RefusalLines
from metastore.server.edge.call_limits import CallLimits
from tests.integration.server.running_server import RunningServer

Start = Callable[..., RunningServer]
Connect = Callable[..., GrpcMetastore]

READER, ADMIN = "reader-token-0123456789", "admin-token-0123456789"
TOKENS = parse_token_file(f"ann reader {READER}\neve admin {ADMIN}\n", "tokens").tokens
COUNT = 400


@pytest.fixture(autouse=True)
def few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short flood meets the limit."""
    monkeypatch.setattr(refusal_lines, "BURST", 20.0)


def flood(target: str, token: str | None, method: str = "CatalogService/ListDatabases") -> set[grpc.StatusCode]:
    """How many calls end that do not wait for each other."""
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    with grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        call: Any = channel.unary_unary(f"/lakelog.rpc.v1.{method}")
        running = [call.future(b"", timeout=30, metadata=metadata) for _ in range(COUNT)]
        return {each.code() for each in running}


def lines_of(server: RunningServer, capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """All lines of a server, which ends."""
    server.stop()
    return [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]


def events(lines: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == event]


def test_a_flood_without_a_token_has_few_lines(
    start_server: Start, connect: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    server = start_server(access=Access(tokens=TOKENS))
    admin, reader = connect(server.target, token=ADMIN), connect(server.target, token=READER)
    assert flood(server.target, None) == {grpc.StatusCode.UNAUTHENTICATED}
    # Meanwhile others do what they may, or may not.
    for number in range(30):
        admin.create_database(f"d{number}")
    with pytest.raises(PermissionDenied):
        reader.create_database("x")
    lines = lines_of(server, capfd)
    refused = [line for line in events(lines, "refused") if line["outcome"] == "UNAUTHENTICATED"]
    left_out = events(lines, "refusals without a line")
    assert 20 <= len(refused) < COUNT / 2
    assert len(refused) + sum(line["count"] for line in left_out) == COUNT, "each has a line or is counted"
    assert all(line["callers"] == {"127.0.0.1": line["count"]} for line in left_out)
    assert [line["caller"] for line in events(lines, "refused") if line not in refused] == ["ann"]
    assert len([line for line in events(lines, "mutation") if line["caller"] == "eve"]) == 30


def test_control_with_a_line_for_each(
    start_server: Start, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefusalLines, "admit", lambda *_: True)
    server = start_server(access=Access(tokens=TOKENS))
    flood(server.target, None)
    assert len(events(lines_of(server, capfd), "refused")) == COUNT


def test_a_flood_with_too_low_a_role_has_few_lines(start_server: Start, capfd: pytest.CaptureFixture[str]) -> None:
    server = start_server(access=Access(tokens=TOKENS))
    assert flood(server.target, READER, "CatalogService/DropDatabase") == {grpc.StatusCode.PERMISSION_DENIED}
    lines = lines_of(server, capfd)
    refused = events(lines, "refused")
    assert 20 <= len(refused) < COUNT / 2
    assert {line["caller"] for line in refused} == {"ann"}
    assert sum(line["count"] for line in events(lines, "refusals without a line")) == COUNT - len(refused)


def test_a_flood_above_the_rate_has_few_lines(start_server: Start, capfd: pytest.CaptureFixture[str]) -> None:
    server = start_server(access=Access(tokens=TOKENS), limits=CallLimits(call_rate=10))
    codes = flood(server.target, ADMIN, "CatalogService/DropDatabase")
    assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes
    lines = lines_of(server, capfd)
    mutations = events(lines, "mutation")
    refused = [line for line in mutations if line["outcome"] == "TOO_MANY_CALLS"]
    assert 20 <= len(refused) < COUNT / 2
    assert len(mutations) + sum(line["count"] for line in events(lines, "refusals without a line")) == COUNT
