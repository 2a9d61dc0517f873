"""The metastore as a process: start-up failures, readiness, signals, the loss and return of Postgres."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.embedded.ports import free_port
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.errors import LakelogError, Unavailable
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo, TableName
from metastore.config import CheckConfig, parse_command
from metastore.postgres.connection.connections import libpq_url
from metastore.postgres.schema.revisions import read_revisions
from metastore.server.startup import StartupFailure
from metastore.wiring import check
from tests.integration.server.metastore_process import Process, run
from tests.support.health import NOT_SERVING, SERVING, health_of

Serve = Callable[..., Process]


def make_table(client: GrpcMetastore) -> TableInfo:
    client.create_database("shop", if_not_exists=True)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table, _ = client.create_table(TableName("shop", "t"), schema, primary_key=["id"], options={"bucket": "1"})
    return table


def commit_of(client: GrpcMetastore, table: TableInfo, identifier: int) -> CommitRequest:
    attempt = client.stage_attempt([table.table_uuid], "w").attempt_id
    file = DataFile(f"data/{attempt}/f.parquet", b"", 0, 0, 1, 0, 100, None, None, 0)
    change = Change(table.table_uuid, SnapshotKind.APPEND, 0, 1, (file,))
    return CommitRequest("w", identifier, (change,), attempt)


# Start-up failures: one line, exit code 2, no traceback, no secret.


def failure(*arguments: str, **variables: str) -> str:
    ended = run(*arguments, **variables)
    assert ended.returncode == 2, ended
    assert "Traceback" not in ended.stderr
    assert "sekret" not in ended.stderr + ended.stdout
    *waits, line = ended.stderr.splitlines()
    assert all("waiting for the database" in each for each in waits)
    assert line.startswith(("metastore: ", "lakelog metastore"))
    return line


NOWHERE = "postgresql://ann:sekret@127.0.0.1:1/lake"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve"], "--database-url is missing: give it or set LAKELOG_DATABASE_URL"),
        (["serve", "--frob"], "unrecognized arguments: --frob"),
        (["migrate", "--database-url", NOWHERE], "postgresql://ann@127.0.0.1:1/lake does not answer"),
    ],
)
def test_what_the_command_line_says_is_checked(arguments: list[str], words: str) -> None:
    assert words in failure(*arguments)


def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    arguments = ["serve", "--insecure-dev", "--warehouse", str(tmp_path / "w")]
    line = failure(*arguments, LAKELOG_DATABASE_URL=NOWHERE)
    assert "postgresql://ann@127.0.0.1:1/lake does not answer: " in line
    began = time.monotonic()
    line = failure(*arguments, LAKELOG_DATABASE_URL=NOWHERE, LAKELOG_WAIT_FOR_DATABASE="1.5")
    assert "does not answer within 1.5 s" in line
    assert time.monotonic() - began > 1.5


def test_a_database_that_was_not_migrated(postgres_url: str, tmp_path: Path) -> None:
    arguments = ["--insecure-dev", "--warehouse", str(tmp_path / "w"), "--database-url", postgres_url]
    assert "Run `lakelog metastore migrate` first" in failure("serve", *arguments)
    assert "Run `lakelog metastore migrate` first" in failure("check", *arguments)
    migrated = run("migrate", "--database-url", postgres_url)
    assert migrated.stdout.startswith("the database is up to date")
    checked = run("check", *arguments)
    assert (checked.returncode, checked.stdout) == (0, "configuration, warehouse and database are fine\n")
    assert (tmp_path / "w").is_dir()
    assert not list((tmp_path / "w").iterdir()), "the probe is deleted"


def note_newer_version(url: str, served_from: str) -> None:
    """As a newer version notes which metastores can serve the database that it has migrated."""
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute("UPDATE lakelog_schema_version SET version_num = '9001'")
        connection.execute("INSERT INTO schema_revision VALUES ('9001', %s)", [served_from])


def test_a_database_of_a_newer_version_that_this_one_cannot_serve(migrated_url: str, tmp_path: Path) -> None:
    note_newer_version(migrated_url, "9001")
    arguments = ["--insecure-dev", "--warehouse", str(tmp_path / "w"), "--database-url", migrated_url]
    for words in (["serve", *arguments], ["check", *arguments], ["migrate", "--database-url", migrated_url]):
        line = failure(*words)
        assert "revision 9001, which this version does not know: a newer metastore migrated it, and it needs" in line
        assert "Run that version, or a newer one." in line


def test_a_database_of_a_newer_version_that_only_added_to_it(migrated_url: str, serve: Serve) -> None:
    note_newer_version(migrated_url, read_revisions().head)
    assert "revision 9001" in run("migrate", "--database-url", migrated_url).stdout
    process = serve(migrated_url)
    process.wait_for_health(SERVING)
    (noted,) = [each for each in process.events() if "newer version" in str(each["event"])]
    assert noted["revision"] == "9001"


def test_a_running_metastore_goes_on_when_a_newer_version_migrates(migrated_url: str, serve: Serve) -> None:
    """Whatever that version needs: those who upgrade replace it, and readiness does not end it before."""
    process = serve(migrated_url)
    process.wait_for_health(SERVING)
    note_newer_version(migrated_url, "9001")
    client = GrpcMetastore(process.target)
    try:
        table = make_table(client)
        for identifier in (1, 2):
            assert client.commit(commit_of(client, table, identifier)).results[0].snapshot_id == identifier
            assert process.health() == SERVING
            # Longer than between two looks at the database.
            time.sleep(2 if identifier == 1 else 0)
    finally:
        client.close()


def test_a_postgres_that_is_too_old(migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.postgres.connection.connections.OLDEST_SERVER", 99)
    arguments = ["check", "--insecure-dev", "--warehouse", str(tmp_path / "w"), "--database-url", migrated_url]
    config = parse_command(arguments, {}).config
    assert isinstance(config, CheckConfig)
    with pytest.raises(
        StartupFailure, match=r"is PostgreSQL \d+, and lakelog needs 99 or newer\. Upgrade it"
    ) as refused:
        asyncio.run(check(config))
    assert "\n" not in str(refused.value)


def test_an_s3_that_does_not_answer(migrated_url: str) -> None:
    keys = {"LAKELOG_S3_ACCESS_KEY_ID": "key", "LAKELOG_S3_SECRET_ACCESS_KEY": "sekret"}
    line = failure(
        "check", "--insecure-dev", "--database-url", migrated_url, "--warehouse", "s3://bucket/w",
        LAKELOG_S3_ENDPOINT="http://127.0.0.1:9", **keys,
    )  # fmt: skip
    assert "The warehouse s3://bucket/w cannot be written to: " in line
    assert "127.0.0.1:9" in line


def test_a_warehouse_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    line = failure(
        "check", "--insecure-dev", "--database-url", NOWHERE, "--warehouse", f"file://{tmp_path}/file/inside"
    )
    assert f"The warehouse file://{tmp_path}/file/inside cannot be written to: Not a directory" in line


def test_ports_that_are_taken(postgres_url: str, tmp_path: Path) -> None:
    assert run("migrate", "--database-url", postgres_url).returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["--insecure-dev", "--warehouse", str(tmp_path / "w"), "--database-url", postgres_url]
        line = failure("serve", *arguments, "--listen", f"127.0.0.1:{port}")
        assert f"Cannot listen on 127.0.0.1:{port}: Address already in use" in line
        line = failure("serve", *arguments, "--listen", "127.0.0.1:0", "--metrics-port", str(port))
        assert f"Cannot listen on 127.0.0.1:{port} for metrics: Address already in use" in line
        line = failure("serve", *arguments, "--listen", "127.0.0.1:0", "--health-port", str(port))
        assert f"Cannot listen on 127.0.0.1:{port}: Address already in use" in line
        assert "--health-port" in line


# Running


def test_it_serves_and_ends_on_sigterm(serve: Serve, postgres_url: str) -> None:
    process = serve(postgres_url)
    assert "(plaintext, development only), metrics on http://127.0.0.1:" in process.ready_line
    assert process.health() == SERVING
    client = GrpcMetastore(process.target)
    table = make_table(client)
    request = commit_of(client, table, 1)
    first = client.commit(request)
    assert client.commit(request) == first
    assert first.results[0].snapshot_id == 1
    pipeline = client.open_commit_pipeline()
    futures = [pipeline.submit(commit_of(client, table, number)) for number in range(2, 22)]
    pipeline.close()
    assert [future.result().results[0].snapshot_id for future in futures] == list(range(2, 22))
    plan = client.plan(PlanRequest(table.table_uuid))
    assert plan.files["order_snapshot"].to_pylist() == list(range(1, 22))
    metrics = urllib.request.urlopen(process.metrics_url, timeout=5).read().decode()
    assert 'lakelog_metastore_rpc_calls_total{method="Commit",outcome="OK"} 2.0' in metrics
    assert "lakelog_metastore_group_size_commits" in metrics
    client.close()
    process.process.send_signal(signal.SIGTERM)
    assert process.process.wait(15) == 0
    events = process.events()
    assert [event["event"] for event in events[-2:]] == ["draining", "stopped"]
    assert "INSECURE" in str([event for event in events if event["level"] == "warning"])
    mutations = [event for event in events if event["event"] == "mutation"]
    streamed = [event for event in mutations if event["method"] == "CommitStream" and "identifier" in event]
    assert [event["identifier"] for event in streamed] == list(range(2, 22))
    assert {event["caller"] for event in streamed} == {"anyone"}
    assert not [event for event in events if event["level"] == "error"], events


def test_a_second_signal_ends_it_at_once(serve: Serve, postgres_url: str) -> None:
    process = serve(postgres_url, "--grace", "60")
    client = GrpcMetastore(process.target, deadlines=Deadlines(call_s=30))
    client.list_databases()
    # A call that cannot end: all tables of the database are locked.
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        names = connection.execute(
            "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()
        connection.execute("LOCK TABLE " + ", ".join(name for (name,) in names))
        caller = threading.Thread(target=_create_in_vain, args=(client,))
        caller.start()
        time.sleep(0.5)
        process.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.process.wait(1)
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(5) == 130
    client.close()
    caller.join()


def _create_in_vain(client: GrpcMetastore) -> None:
    with pytest.raises(LakelogError):
        client.create_database("x")


def test_postgres_goes_and_comes_back(serve: Serve) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ll-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder), port=0) as postgres,
    ):
        process = serve(postgres.database_url, "--health-port", str(port := free_port()))
        quick = GrpcMetastore(
            process.target, deadlines=Deadlines(call_s=5), retries=RetryPolicy(total_s=1, commit_total_s=1)
        )
        patient = GrpcMetastore(process.target)
        table = make_table(patient)
        request = commit_of(patient, table, 1)
        assert process.health() == SERVING
        postgres.kill()
        process.wait_for_health(NOT_SERVING)
        # Kubernetes sends no one there, and restarts nothing.
        assert health_of(f"127.0.0.1:{port}", "readiness") == NOT_SERVING
        assert health_of(f"127.0.0.1:{port}", "liveness") == SERVING
        with pytest.raises(Unavailable):
            quick.list_databases()
        with pytest.raises(Unavailable):
            quick.commit(request)
        postgres.start()
        process.wait_for_health(SERVING)
        assert health_of(f"127.0.0.1:{port}", "readiness") == SERVING
        assert patient.commit(request).results[0].snapshot_id == 1
        assert quick.list_databases()[0].name == "shop"
        states = [event["event"] for event in process.events() if "serving" in str(event["event"])]
        assert states[0] == "serving"
        assert any(str(state).startswith("not serving") for state in states)
        assert states[-1] == "serving"
        quick.close()
        patient.close()


def test_the_password_is_never_shown(serve: Serve, postgres_url: str, postgres_server: EmbeddedPostgres) -> None:
    url = postgres_server.url(postgres_url.partition("?")[0].rpartition("/")[2], over_tcp=True)
    password = url.partition("://")[2].partition("@")[0].partition(":")[2]
    assert len(password) > 8
    process = serve(url, "--log-level", "debug")
    process.process.send_signal(signal.SIGTERM)
    assert process.process.wait(15) == 0
    assert password not in process.log.read_text() + process.ready_line
    unreachable = url.replace(f":{url.rpartition(':')[2].partition('/')[0]}/", ":1/")
    ended = run("check", "--insecure-dev", "--warehouse", "/tmp", LAKELOG_DATABASE_URL=unreachable)
    assert ended.returncode == 2
    assert "does not answer" in ended.stderr
    assert password not in ended.stderr
