"""`lakelog up` and the commands against it, as processes."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.embedded.kafka.protocol import find_cluster
from lakelog.embedded.ports import free_port
from tests.e2e.cli.up import COMMAND, Up, environment, is_alive, processes_in, run_command, wait_until
from tests.support.log.kafka_broker import require_kafka

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

StartUp = Callable[..., Up]

_PIECES = 60
"""Commits to each of two tables: each needs to be compacted several times before few files are left."""


@pytest.fixture(scope="module")
def up(start_up: StartUp) -> Up:
    running = start_up()
    running.wait_until_ready()
    return running


def metastore_pid(up: Up) -> int:
    (pid,) = [pid for pid, words in processes_in(up.data).items() if "metastore serve" in words]
    return pid


def test_no_one_else_on_the_machine_can_read_anything(up: Up) -> None:
    folders = [up.data, up.data / "logs", up.data / "postgres"]
    found = [up.ready_file, *folders, *(path for folder in folders for path in folder.iterdir())]
    assert {path.name for path in found} >= {"logs", "warehouse", "metastore.log", "password", "data", "up.lock"}
    assert not [path for path in found if path.stat().st_mode & 0o077]


def test_what_is_committed_in_small_pieces_is_compacted_without_anybody_asking(up: Up) -> None:
    assert up.run("database", "create", "pieces").returncode == 0
    with lakelog.connect(up.target) as catalog:
        schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
        keyed = catalog.create_table("pieces.keyed", schema, primary_key=["k"], options={"bucket": "1"})
        log = catalog.create_table("pieces.log", schema)
        for number in range(_PIECES):
            rows = pa.table({"k": [number % 10], "v": [number]}, schema=schema)
            keyed.upsert(rows)
            log.append(rows)
        wait_until(lambda: keyed.files().num_rows <= 5 and log.files().num_rows <= 5, 60, "few files are left")
        assert sorted(keyed.scan().to_arrow()["v"].to_pylist()) == list(range(_PIECES - 10, _PIECES))
        assert sorted(log.scan().to_arrow()["v"].to_pylist()) == list(range(_PIECES))
    listed = up.json("jobs")
    assert {job["table"] for job in listed if job["kind"] == "compact"} >= {"pieces.keyed", "pieces.log"}
    assert not [job for job in listed if job["reason"]]


def test_a_table_from_its_making_to_its_end(up: Up, tmp_path: Path) -> None:
    assert up.run("database", "create", "shop").returncode == 0
    made = up.run(
        "table", "create", "shop.orders", "--schema", "id BIGINT NOT NULL, item STRING, price DECIMAL(10, 2)",
        "--primary-key", "id", "--option", "bucket=2",
    )  # fmt: skip
    assert (made.returncode, made.stdout) == (0, "Created table shop.orders.\n")
    first, second, gone = tmp_path / "first.csv", tmp_path / "second.jsonl", tmp_path / "gone.csv"
    first.write_text("id,item,price\n1,tea,3.50\n2,cup,8.00\n3,,0.10\n")
    second.write_text('{"id": 2, "item": "big cup", "price": "9.25"}\n{"id": 4, "item": "pot", "price": null}\n')
    gone.write_text("id\n1\n")
    assert "snapshot 1" in up.run("insert", "shop.orders", str(first)).stdout
    assert "snapshot 2" in up.run("insert", "shop.orders", str(second)).stdout
    assert "snapshot 3" in up.run("insert", "shop.orders", str(gone), "--mode", "delete").stdout

    rows = up.rows("scan", "shop.orders")
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 2, "item": "big cup", "price": "9.25"},
        {"id": 3, "item": None, "price": "0.10"},
        {"id": 4, "item": "pot", "price": None},
    ]
    assert up.rows("scan", "shop.orders", "--filter", "price < 5", "--columns", "id") == [{"id": 3}]
    assert up.run("scan", "shop.orders", "--count", "--snapshot", "1").stdout == "3\n"
    snapshots = up.json("snapshots", "shop.orders")
    assert [s["snapshot_id"] for s in snapshots] == [1, 2, 3]
    then = snapshots[1]["committed_at"]
    assert up.json("scan", "shop.orders", "--count", "--timestamp", then) == {"table": "shop.orders", "count": 4}
    assert sum(file["rows"] for file in up.json("files", "shop.orders")) == 6
    assert sum(file["rows"] for file in up.json("files", "shop.orders", "--snapshot", "1")) == 3
    described = up.json("table", "describe", "shop.orders")
    assert (described["snapshot_id"], described["options"]) == (3, {"bucket": "2"})

    changes = up.rows("tail", "shop.orders", "--after", "1")
    seen = sorted((change["_snapshot_id"], change["_row_kind"], change["id"]) for change in changes)
    assert seen == [(2, "+I", 4), (2, "+U", 2), (2, "-U", 2), (3, "-D", 1)]
    assert up.run("table", "drop", "shop.orders", "--yes").returncode == 0
    assert up.run("scan", "shop.orders").returncode == 3


def test_an_insert_under_one_identifier_is_applied_once(up: Up, tmp_path: Path) -> None:
    up.run("database", "create", "once")
    up.run("table", "create", "once.t", "--schema", "id INT")
    file = tmp_path / "rows.csv"
    file.write_text("id\n1\n2\n")
    arguments = ("insert", "once.t", str(file), "--writer", "nightly", "--identifier", "7")
    for already_applied in (False, True):
        expected = {"table": "once.t", "rows": 2, "snapshot_id": 1, "already_applied": already_applied, "files": 1}
        assert up.json(*arguments).items() >= expected.items()
    assert up.run("scan", "once.t", "--count").stdout == "2\n"


def test_sql(up: Up, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(
        "CREATE DATABASE lab; -- a; comment\n"
        "CREATE TABLE lab.t (id BIGINT NOT NULL, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');\n"
        "INSERT INTO lab.t VALUES (1, 'a;b'), (2, 'it''s');\n"
    )
    done = up.run("sql", "-f", str(script))
    assert done.returncode == 0, done.stderr
    assert up.rows("sql", "-e", "SELECT id, name FROM lab.t ORDER BY id") == [
        {"id": 1, "name": "a;b"},
        {"id": 2, "name": "it's"},
    ]
    piped = up.run("sql", "--output", "json", stdin="SELECT count(*) AS n FROM lab.t VERSION AS OF 1")
    assert [json.loads(line) for line in piped.stdout.splitlines()] == [{"n": 2}]
    assert up.rows("sql", "-e", "INSERT INTO lab.t VALUES (3, 'c')") == [{"table": "lab.t", "snapshot_id": 2}]
    statement = up.run("table", "show-create", "lab.t").stdout
    assert up.run("sql", "-e", "DROP TABLE lab.t", "-e", statement).returncode == 0
    wrong = up.run("sql", "-e", "SELEC 1")
    assert (wrong.returncode, wrong.stderr[:7]) == (2, "Error: ")


def test_a_person_is_asked_for_statements_and_keeps_a_history(up: Up, tmp_path: Path) -> None:
    up.run("sql", "-e", "CREATE DATABASE tabbed; CREATE TABLE tabbed.items AS SELECT 1 AS price")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "-t", up.target, "sql"],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**environment(), "XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"},
    ) as prompt:  # fmt: skip
        os.close(theirs)
        shown = ""

        def wait_for(text: str) -> None:
            nonlocal shown
            while text not in shown:
                assert select.select([ours], [], [], 20)[0], f"{text!r} is not in {shown!r}"
                shown += os.read(ours, 65536).decode()
            shown = shown.partition(text)[2]

        wait_for("lakelog> ")
        os.write(ours, b"DESCRIBE tabbed.it\t;\n")
        wait_for("tabbed.items")
        wait_for("price")
        wait_for("lakelog> ")
        os.write(ours, b"SELECT 'a;b' AS\n")
        wait_for("...> ")
        os.write(ours, b"both;\n")
        wait_for("both")
        wait_for("a;b")
        wait_for("lakelog> ")
        os.write(ours, b"SELEC 1;\n")
        wait_for("Error: ")
        wait_for("lakelog> ")
        os.write(ours, b"exit\n")
        assert prompt.wait(20) == 0
    os.close(ours)
    assert "SELECT 'a;b' AS" in (tmp_path / "lakelog" / "sql_history").read_text()


def test_tail_follows_until_ctrl_c(up: Up, tmp_path: Path) -> None:
    up.run("database", "create", "followed")
    up.run("table", "create", "followed.t", "--schema", "id INT")
    file = tmp_path / "rows.csv"
    file.write_text("id\n7\n")
    with subprocess.Popen(
        [*COMMAND, "-t", up.target, "-o", "json", "tail", "followed.t", "--follow", "--after", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    ) as tail:  # fmt: skip
        assert tail.stdout is not None
        assert tail.stderr is not None
        for number in (1, 2):
            up.run("insert", "followed.t", str(file))
            row = json.loads(tail.stdout.readline())
            assert row == {"_snapshot_id": number, "_row_kind": "+I", "id": 7}
        tail.send_signal(signal.SIGINT)
        assert tail.wait(10) == 130
        assert "Traceback" not in tail.stderr.read()


def test_a_reader_that_goes_away_ends_the_command_quietly(up: Up) -> None:
    up.run("database", "create", "piped")
    up.run("table", "create", "piped.t", "--schema", "id INT, text STRING")
    lines = "".join(f"{i},{'x' * 100}\n" for i in range(20_000))
    assert up.run("insert", "piped.t", "-", "--format", "csv", stdin=f"id,text\n{lines}").returncode == 0
    for output in ("json", "table"):
        with subprocess.Popen(
            [*COMMAND, "-t", up.target, "-o", output, "scan", "piped.t", "--limit", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        ) as scan:  # fmt: skip
            assert scan.stdout is not None
            assert scan.stderr is not None
            assert scan.stdout.readline()
            scan.stdout.close()
            assert scan.wait(30) == 0
            assert scan.stderr.read() == b""


def test_status_knows_whether_it_serves(up: Up) -> None:
    up.run("sql", "-e", "CREATE DATABASE sized; CREATE TABLE sized.t AS SELECT 1 AS id")
    record = up.json("status")
    assert record["serving"]
    assert record["latency_ms"] < 1000
    assert all(service["metrics"] for service in record["services"]), "doctor asks them for their health"
    assert record["pipelines"] == record["logs"] == []
    assert all({"kind", "due_count", "leased_count", "oldest_due_ms"} <= queue.keys() for queue in record["jobs"])
    said = up.run("status").stdout.splitlines()
    shown = {line.split()[0] for line in said if line}
    assert {"Size", "Disk", "Jobs", "Logs", "Services"} <= shown
    assert 0 < record["disk"]["free_bytes"] < record["disk"]["total_bytes"]
    assert record["size_bytes"] == sum(found["size_bytes"] for found in up.json("database", "list")) > 0
    assert run_command("-t", "127.0.0.1:1", "status").returncode == 5


def test_status_and_consumers_say_who_keeps_snapshots_from_expiring(up: Up) -> None:
    catalog = lakelog.connect(up.target)
    catalog.create_database("held", if_not_exists=True)
    retained = {"snapshot.time-retained": "1 ms", "snapshot.num-retained.min": "1"}
    table = catalog.create_table("held.t", pa.schema([("id", pa.int64())]), options=retained)
    table.append(pa.table({"id": [1]}))
    with table.subscribe(consumer_id="forgotten") as stream:
        stream.read(10)
        stream.commit()
        (reading,) = up.json("consumers", "list", "held.t")
    for number in range(2, 5):
        table.append(pa.table({"id": [number]}))
    (overdue,) = up.json("status")["overdue"]
    assert (overdue["table"], overdue["kind"], overdue["holder"]) == ("held.t", "consumer", "forgotten")
    assert overdue["count"] == 3
    assert [part for part in ("held.t", "forgotten", "OVERDUE") if part not in up.run("status").stdout] == []
    (closed,) = up.json("consumers", "list", "held.t")
    assert (bool(reading["holder"]), closed["holder"], closed["behind"], closed["expired"]) == (True, None, 3, False)
    assert up.run("consumers", "delete", "held.t", "forgotten", "--yes").returncode == 0
    assert up.json("status")["overdue"] == []


def test_one_folder_has_one_up_and_one_port_one_server(up: Up, tmp_path: Path) -> None:
    same_folder = run_command("up", "--data", str(up.data), "--port", "1")
    assert same_folder.returncode == 4
    assert f"in use by another `lakelog up` (process {up.process.pid})" in same_folder.stderr
    same_port = run_command("up", "--data", str(tmp_path / "other"), "--port", str(up.port))
    assert same_port.returncode == 4
    assert f"Port {up.port} of 127.0.0.1 is in use" in same_port.stderr
    assert len(same_port.stderr.splitlines()) == 1


def test_what_is_killed_comes_back(up: Up) -> None:
    before = metastore_pid(up)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: up.run("status").returncode == 0 and metastore_pid(up) != before, 30, "the metastore is back")
    assert up.run("database", "create", "after_the_kill").returncode == 0
    wait_until(lambda: "metastore was started again" in up.output.read_text(), 10, "its return is told")
    assert "metastore was killed by signal 9 (SIGKILL); it is started again" in up.output.read_text()


@pytest.mark.slow
def test_a_signal_stops_everything_and_the_data_stays_and_the_next_up_takes_over_from_a_killed_one(
    start_up: StartUp,
) -> None:
    first = start_up()
    facts = first.wait_until_ready()
    assert facts["target"] == first.target
    first.run("database", "create", "kept")
    assert len(processes_in(first.data)) >= 2
    assert first.stop(signal.SIGINT) == 0
    assert not processes_in(first.data)
    assert not first.ready_file.exists()
    assert {"postgres.log", "metastore.log"} <= {file.name for file in (first.data / "logs").iterdir()}

    second = start_up(first.data, first.port)
    second.wait_until_ready()
    assert "taking over" not in second.output.read_text()
    assert [database["name"] for database in second.json("database", "list")] == ["kept"]
    children = processes_in(second.data)
    second.process.kill()
    second.process.wait()
    second.ready_file.unlink()

    third = start_up(second.data, second.port)
    third.wait_until_ready()
    assert not [pid for pid in children if is_alive(pid)]
    assert f"(process {second.process.pid}) was killed; taking over" in third.output.read_text()
    assert [database["name"] for database in third.json("database", "list")] == ["kept"]
    assert third.stop(signal.SIGTERM) == 0
    assert not processes_in(third.data)


@pytest.mark.slow
def test_a_kafka_of_its_own_and_a_stop_while_all_is_started_again_leaves_nothing(start_up: StartUp) -> None:
    require_kafka()
    port = free_port()
    up = start_up(None, None, "--kafka", "--kafka-port", str(port))
    facts = up.wait_until_ready()
    assert facts["kafka"] == f"127.0.0.1:{port}"
    line = f"Kafka      127.0.0.1:{port}"
    wait_until(lambda: line in up.output.read_text(), 30, line)
    assert find_cluster("127.0.0.1", port) is not None
    before = set(processes_in(up.data))
    for pid in before:
        # The children of one that is gone already may be gone, too.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: set(processes_in(up.data)) - before, 30, "something is being started again")
    assert up.stop() == 0
    assert not processes_in(up.data)


def test_unreachable_brokers_are_reported_at_once(tmp_path: Path) -> None:
    away = f"127.0.0.1:{free_port()}"
    done = run_command("up", "--data", str(tmp_path / "data"), "--kafka-bootstrap-servers", away)
    assert done.returncode == 5
    assert f"No Kafka broker can be reached at {away} ({away}: Connection refused)" in done.stderr
    assert not (tmp_path / "data").exists()


def test_ctrl_c_while_it_starts_leaves_nothing(start_up: StartUp) -> None:
    starting = start_up()
    wait_until(lambda: "Starting" in starting.output.read_text(), 60, "it begins")
    time.sleep(0.3)
    assert starting.stop() in (0, 130)
    # The program that makes the database has children of its own, which end when they notice that it is gone.
    wait_until(lambda: not processes_in(starting.data), 10, "nothing runs any more")
    assert "Traceback" not in starting.output.read_text()
