"""Calls over a real server: what goes through, and what failures look like to a caller."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf.message import Message

from lakelog.client.connection.retry import Deadlines
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import (
    CommitConflict,
    InternalError,
    InvalidArgument,
    NotFound,
    OutcomeUnknown,
    ResourceExhausted,
    Unavailable,
)
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.jobs.work import Pipeline
from lakelog.format.tables.files import FILE_SCHEMA
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableName
from lakelog.rpc.v1 import catalog_pb2, jobs_pb2, presence_pb2, snapshots_pb2
from lakelog.serving.http_endpoint import HttpEndpoint
from metastore.server.edge.call_limits import CallLimits
from tests.integration.server.running_server import TABLE, RunningServer, ScriptedUseCases, failure_of
from tests.support.error_metadata import metadata_of

Start = Callable[..., RunningServer]
Connect = Callable[..., GrpcMetastore]


def commit(identifier: int, writer: str = "w") -> CommitRequest:
    return CommitRequest(writer, identifier, (Change("a" * 32, SnapshotKind.APPEND, 0, 1),), "b" * 32)


def files(*rows: tuple[int, bytes, int, int, int]) -> pa.Table:
    """Entries of (file id, partition, bucket, order snapshot, order ordinal)."""
    columns = {
        "file_id": [row[0] for row in rows],
        "path": [f"data/x/{row[0]}.parquet" for row in rows],
        "partition": [row[1] for row in rows],
        "bucket": [row[2] for row in rows],
        "order_snapshot": [row[3] for row in rows],
        "order_ordinal": [row[4] for row in rows],
    }
    for field in FILE_SCHEMA:
        columns.setdefault(field.name, [None if field.nullable else 0] * len(rows))
    return pa.table(columns, schema=FILE_SCHEMA)


def test_every_call_goes_through(start_server: Start, connect: Connect) -> None:
    server = start_server()
    client = connect(server.target)
    assert client.create_database("shop", comment="x") is True
    assert [found.name for found in client.list_databases()] == ["shop"]
    assert client.drop_database("shop") is True
    table, created = client.create_table(
        TableName("shop", "t"), pa.schema([pa.field("id", pa.int64(), False)]), primary_key=["id"], options={"a": "b"}
    )
    assert created
    assert table.schema.primary_key == ("id",)
    assert table.schema.field_ids == {"id": 1}
    assert client.get_table(TableName("shop", "orders")) == TABLE
    assert client.get_table_by_uuid("f" * 32).table_uuid == "f" * 32
    assert client.list_tables("shop") == ["orders"]
    assert client.alter_table("a" * 32, set_options={"x": "y"}, unset_options=["z"]).options == {"x": "y"}
    assert client.drop_table(TableName("shop", "t")) is True
    assert client.list_schemas("a" * 32) == [TABLE.schema]
    assert client.stage_attempt(["a" * 32], "w").attempt_id == "b" * 32
    client.abandon_attempt("b" * 32)
    assert client.register_writer("w") == 1
    assert client.get_writer_progress("w", "a" * 32).last_identifier is None
    assert client.commit(commit(1)).results[0].snapshot_id == 1
    page = client.list_snapshots("a" * 32, after=3, limit=2)
    assert [found.snapshot_id for found in page.snapshots] == [4, 5]
    assert (page.latest_snapshot_id, page.earliest_snapshot_id) == (10, 1)
    assert client.acquire_lease("l", "me", 1000).acquired
    assert client.renew_lease("l", 1, 2000) == 2000
    client.release_lease("l", 1)
    client.report_pipeline(Pipeline("p", "shop.t", "s", "running", None, "", None, 0, 0, ""), 1)
    assert client.list_pipelines() == []
    assert "127.0.0.1" in repr(client)


def test_a_plan_is_put_together_in_order(start_server: Start, connect: Connect) -> None:
    use_cases = ScriptedUseCases(
        plan_chunks=[
            (files((1, b"a", 0, 1, 0), (2, b"a", 1, 1, 1), (3, b"b", 0, 1, 2)), ()),
            (files((4, b"a", 0, 2, 0), (5, b"b", 0, 2, 1)), (3, 4)),
        ]
    )
    plan = connect(start_server(use_cases).target).plan(PlanRequest("a" * 32))
    assert plan.files.schema.equals(FILE_SCHEMA)
    assert plan.files["file_id"].to_pylist() == [1, 2, 5]
    assert plan.table == TABLE
    assert plan.snapshot is not None
    assert plan.snapshot.snapshot_id == 3


def test_an_error_arrives_whole(start_server: Start, connect: Connect) -> None:
    async def refuse() -> None:
        raise CommitConflict("Files 3, 4 are gone.", reason="FILES_GONE", metadata={"retry": "replan", "kind": "x"})

    client = connect(start_server(ScriptedUseCases(before={"commit": refuse})).target)
    with pytest.raises(CommitConflict, match=r"Files 3, 4 are gone\.") as caught:
        client.commit(commit(1))
    assert caught.value.reason == "FILES_GONE"
    assert metadata_of(caught.value) == {"retry": "replan"}


def test_a_defect_shows_an_id_and_nothing_else(
    start_server: Start, connect: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("secret of the insides")

    server = start_server(ScriptedUseCases(before={"list_databases": fail, "stage_attempt": fail}))
    client = connect(server.target)
    with pytest.raises(InternalError) as caught:
        client.list_databases()
    assert "secret" not in caught.value.message
    assert caught.value.metadata["error_id"] in caught.value.message
    with pytest.raises(OutcomeUnknown, match="unknown"):
        client.stage_attempt(["a" * 32], "w")
    assert "ZeroDivisionError: secret of the insides" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("method", "request_", "words"),
    [
        ("CatalogService/GetTable", catalog_pb2.GetTableRequest(), "by is not given"),
        ("CatalogService/CreateTable", catalog_pb2.CreateTableRequest(arrow_schema=b"x"), "arrow_schema (1 bytes)"),
        (
            "SnapshotService/Commit",
            snapshots_pb2.CommitRequest(changes=[snapshots_pb2.Change()]),
            "changes[0].kind is not given",
        ),
        ("JobService/ReportPipeline", jobs_pb2.ReportPipelineRequest(), "pipeline is not given"),
        ("PresenceService/ReportPresence", presence_pb2.ReportPresenceRequest(), "service is not given"),
        (
            "PresenceService/ReportPresence",
            presence_pb2.ReportPresenceRequest(service=presence_pb2.Service()),
            "service.state has the unknown value 0",
        ),
    ],
)
def test_malformed_requests_are_refused_by_field(
    start_server: Start, method: str, request_: Message, words: str
) -> None:
    code, text = failure_of(start_server().target, method, request_.SerializeToString())
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert words in text


def test_bytes_that_are_no_message_are_no_crash(start_server: Start, connect: Connect) -> None:
    server = start_server()
    code, text = failure_of(server.target, "SnapshotService/Commit", b"\x0a\xff\xff")
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "3 bytes are no message" in text
    assert connect(server.target).list_databases() == []


def test_an_oversize_message_is_refused_and_named(start_server: Start, connect: Connect) -> None:
    client = connect(start_server().target)
    with pytest.raises(ResourceExhausted, match="64 MiB"):
        client.create_database("x", comment="c" * (65 * 1024 * 1024))
    assert client.list_databases() == []


def test_an_oversize_message_of_a_client_without_limits_is_refused_by_the_server(start_server: Start) -> None:
    code, _ = failure_of(
        start_server().target,
        "CatalogService/ListDatabases",
        b"\x0a" + b"\x00" * (65 * 1024 * 1024),
        options=[("grpc.max_send_message_length", -1)],
    )
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_an_expired_deadline_of_a_read_is_named(start_server: Start, connect: Connect) -> None:
    async def sleep() -> None:
        await asyncio.sleep(30)

    server = start_server(ScriptedUseCases(before={"list_databases": sleep}))
    client = connect(server.target, deadlines=Deadlines(connect_s=1, call_s=0.3))
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"ListDatabases .* within the deadline of 0\.\d+ s"):
        client.list_databases()
    assert time.monotonic() - began < 3


def test_a_mutation_goes_on_when_its_caller_is_gone(start_server: Start, connect: Connect) -> None:
    async def sleep() -> None:
        await asyncio.sleep(0.6)

    use_cases = ScriptedUseCases(before={"drop_table": sleep})
    server = start_server(use_cases)
    client = connect(server.target, deadlines=Deadlines(connect_s=1, call_s=0.2))
    with pytest.raises(OutcomeUnknown, match="may have taken effect"):
        client.drop_table(TableName("shop", "orders"))
    assert use_cases.finished.count("drop_table") == 0
    time.sleep(0.8)
    assert use_cases.finished.count("drop_table") == 1
    assert use_cases.calls.count("drop_table") == 1, "a drop is never repeated"


def test_the_servers_own_limit(start_server: Start) -> None:
    async def sleep() -> None:
        await asyncio.sleep(5)

    use_cases = ScriptedUseCases(before={"list_databases": sleep, "drop_table": sleep})
    server = start_server(use_cases, limits=CallLimits(call_s=0.2), grace_s=0.1)
    code, text = failure_of(server.target, "CatalogService/ListDatabases")
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "limit of 0.2 s" in text
    code, text = failure_of(server.target, "CatalogService/DropTable")
    assert code is grpc.StatusCode.UNKNOWN
    assert "may take effect" in text


def test_too_many_calls_at_once(start_server: Start, connect: Connect) -> None:
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    use_cases = ScriptedUseCases(before={"list_tables": hold})
    server = start_server(use_cases, limits=CallLimits(max_calls=2))
    with grpc.insecure_channel(server.target) as channel:
        call: Any = channel.unary_unary("/lakelog.rpc.v1.CatalogService/ListTables")
        held = [call.future(b"", timeout=10) for _ in range(2)]
        while use_cases.calls.count("list_tables") < 2:
            time.sleep(0.01)
        code, text = failure_of(server.target, "CatalogService/ListTables")
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "2 calls open" in text
        server.loop.call_soon_threadsafe(release.set)
        for answer in held:
            answer.result()
    assert connect(server.target).list_tables("shop") == ["orders"]


def test_a_server_of_another_kind_is_asked_about(connect: Connect) -> None:
    other = grpc.server(ThreadPoolExecutor(1))
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    try:
        client = connect(f"127.0.0.1:{port}")
        with pytest.raises(InvalidArgument, match="or no lakelog metastore") as caught:
            client.create_database("x")
        assert f"127.0.0.1:{port}" in caught.value.message
    finally:
        other.stop(None)


def test_the_log_shows_mutations_and_no_secrets(
    start_server: Start, connect: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    client = connect(start_server().target)
    client.commit(commit(7, writer="nightly"))
    client.list_databases()
    with pytest.raises(NotFound):
        client.drop_database("nowhere")
    # Each few seconds: it has no line, unless it is refused.
    assert client.renew_lease("held", 1, 1000) == 1000
    # Publishers count each other by these.
    client.acquire_lease("publisher-seat/1", "publisher", 1000)
    client.release_lease("publisher-seat/1", 1)
    client.acquire_lease("publisher/of-a-table", "publisher", 1000)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    mutations = [line for line in lines if line["event"] == "mutation"]
    assert [line["method"] for line in mutations] == ["Commit", "DropDatabase", "AcquireLease"]
    assert mutations[2]["name"] == "publisher/of-a-table"
    assert mutations[0]["writer"] == "nightly"
    assert mutations[0]["identifier"] == 7
    assert mutations[0]["tables"] == ["a" * 32]
    assert mutations[0]["outcome"] == "OK"
    assert mutations[0]["duration_ms"] > 0
    assert mutations[1]["outcome"] == "NOT_FOUND"
    assert mutations[1]["name"] == "nowhere"
    assert not [line for line in lines if line.get("method") == "ListDatabases"]


def test_metrics_count_calls(start_server: Start, connect: Connect) -> None:
    server = start_server()
    connect(server.target).commit(commit(1))
    endpoint = HttpEndpoint("127.0.0.1", 0, server.registry, lambda: server.server.health.serving)
    endpoint.start()
    try:
        url = f"http://127.0.0.1:{endpoint.port}"
        text = urllib.request.urlopen(f"{url}/metrics", timeout=5).read().decode()
        assert 'lakelog_metastore_rpc_calls_total{method="Commit",outcome="OK"} 1.0' in text
        assert "lakelog_metastore_rpc_serving 1.0" in text
        assert "_created" not in text, "docs/metrics.md lists every name"
        assert urllib.request.urlopen(f"{url}/healthz", timeout=5).read() == b"SERVING\n"
        server.lose_database()
        deadline = time.monotonic() + 5
        while server.server.health.serving and time.monotonic() < deadline:
            time.sleep(0.02)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/healthz", timeout=5)
        assert caught.value.code == 503
        caught.value.close()
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"{url}/", timeout=5)
        assert missing.value.code == 404
        missing.value.close()
    finally:
        endpoint.stop()
