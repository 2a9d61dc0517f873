"""Streams to sinks by real processes: exactly once over kill -9 and takeover, each sink's rows those of the source."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from lakelog.format.jobs.presence import Service, ServiceState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.e2e.reader.reader_process import Reader, find_state
from tests.e2e.reader.stream_files import SCHEMA, write_stream

LOG = pa.schema([*SCHEMA, pa.field("op", pa.string())])
Start = Callable[..., Reader]


def write_rows(table: Table, count: int) -> None:
    for number in range(count):
        table.upsert(pa.table({"id": range(number, number + 20), "v": [f"v{number}"] * 20}, SCHEMA))
        if number % 5 == 4:
            table.delete(pa.table({"id": [number]}))
        time.sleep(0.1)


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(repr(list(row.values())) for row in table.to_pylist())


def wait_until_read(catalog: Catalog, name: str, source: Table, reader: Reader) -> None:
    end_s = time.monotonic() + 240
    latest = f"snapshot {source.snapshots().num_rows}"
    while latest not in [found.position for found in catalog.metastore.list_pipelines() if found.name == name]:
        assert time.monotonic() < end_s, f"{catalog.metastore.list_pipelines()}\n{reader.text()[-5000:]}"
        time.sleep(0.2)


def test_each_row_once_over_a_frozen_instance_a_kill_and_takeovers(
    catalog: Catalog, start_reader: Start, tmp_path: Path
) -> None:
    catalog.create_database("sinks", if_not_exists=True)
    source = catalog.create_table("sinks.source", SCHEMA, primary_key=["id"], options={"bucket": "2"})
    copy = catalog.create_table("sinks.copy", SCHEMA, primary_key=["id"])
    log = catalog.create_table("sinks.log", LOG)
    streams = tmp_path / "streams"
    write_stream(streams, "copy", source.name, "{type: table, table: sinks.copy}")
    write_stream(streams, "log", source.name, "{type: table, table: sinks.log, row_kind_column: op}")
    write_stream(streams, "files", source.name, "{type: parquet, path: ../out, row_kind_column: op}")
    # The first change comes before any reader, so that each stream shows all changes and not a state.
    source.upsert(pa.table({"id": [1000], "v": ["first"]}, SCHEMA))
    writing = threading.Thread(target=write_rows, args=(source, 30))
    first = start_reader("run", "--lease-seconds", "3", streams)
    first.wait_for("starting")
    for name in ("copy", "log", "files"):
        wait_until_read(catalog, name, source, first)
    writing.start()
    second = start_reader("run", "--lease-seconds", "3", streams)
    second.wait_for("waiting for the lease")
    while source.snapshots().num_rows < 15:
        time.sleep(0.1)
    # It is frozen, and goes on when another has done its work for a while: whatever it had in hand is refused.
    first.send(signal.SIGSTOP)
    second.wait_for('"batch done"')
    first.send(signal.SIGCONT)
    first.wait_for('"exit_status": "FENCED"')
    first.wait_for("waiting for the lease")
    second.kill()
    writing.join()
    for name in ("copy", "log", "files"):
        wait_until_read(catalog, name, source, first)
    assert first.stop() == 0, first.text()[-5000:]
    assert {find_state(catalog, name).state for name in ("copy", "log", "files")} == {"stopped"}
    assert sorted_rows(copy.scan().to_arrow()) == sorted_rows(source.scan().to_arrow())
    changes = source.changes(columns=["id", "v", "_row_kind"]).to_arrow()
    assert sorted_rows(log.scan().to_arrow()) == sorted_rows(changes)
    files = ds.dataset(tmp_path / "out", format="parquet", exclude_invalid_files=True).to_table()
    assert sorted_rows(files.select(["id", "v", "op"])) == sorted_rows(changes)
    assert find_state(catalog, "log").lag == 0


def test_it_is_listed_while_it_runs_and_a_stop_while_batches_come_is_no_error(
    catalog: Catalog, start_reader: Start, tmp_path: Path
) -> None:
    catalog.create_database("sinks", if_not_exists=True)
    source = catalog.create_table("sinks.busy", SCHEMA, primary_key=["id"])
    streams = tmp_path / "streams"
    for name in ("one", "two"):
        write_stream(streams, name, source.name, f"{{type: parquet, path: ../out-{name}, row_kind_column: op}}")
        # A batch holds one snapshot, so that the next one is always due.
        file = streams / f"{name}.yaml"
        file.write_text(file.read_text().replace("maxRowsPerTrigger: 40", "maxRowsPerTrigger: 1"))
    source.upsert(pa.table({"id": [0], "v": ["first"]}, SCHEMA))
    reader = start_reader("run", streams)

    def find_service() -> Service | None:
        return next((found for found in catalog.services() if found.pid == reader.process.pid), None)

    for name in ("one", "two"):
        reader.wait_for(f'"stream": "{name}", "batch_id": 0')
    end_s = time.monotonic() + 240
    while (listed := find_service()) is None or listed.state is not ServiceState.RUNNING:
        assert time.monotonic() < end_s, reader.text()[-5000:]
        time.sleep(0.1)
    assert (listed.kind, sorted(listed.work)) == ("reader", ["one", "two"])
    for number in range(80):
        source.upsert(pa.table({"id": [number], "v": ["x"]}, SCHEMA))
    for name in ("one", "two"):
        reader.wait_for(f'"stream": "{name}", "batch_id": 2')
    before = reader.text().count("\n")
    assert reader.stop() == 0, reader.text()[-5000:]
    assert find_state(catalog, "one").lag != 0, "the stop came when no batch was due"
    lines = [json.loads(line) for line in reader.text().splitlines()[before:]]
    assert {line["level"] for line in lines} == {"info"}
    assert {line["event"] for line in lines} <= {"batch done", "stream stopped"}
    assert [line["event"] for line in lines].count("stream stopped") == 2
    assert "ERROR" not in reader.text()
    assert find_service() is None


def test_once_reads_what_is_there_into_each_sink(catalog: Catalog, start_reader: Start, tmp_path: Path) -> None:
    catalog.create_database("sinks", if_not_exists=True)
    source = catalog.create_table("sinks.few", SCHEMA)
    source.append(pa.table({"id": [1, 2], "v": ["a", None]}, SCHEMA))
    streams = tmp_path / "streams"
    write_stream(streams, "json", source.name, "{type: json, path: ../json}")
    write_stream(streams, "console", source.name, "{type: console}")
    write_stream(streams, "function", source.name, "{type: python, function: 'billing:handle'}")
    write_stream(streams, "broken", source.name, "{type: python, function: 'billing:fail'}")
    (streams / "billing.py").write_text(
        "def handle(rows, batch_id):\n    print('HANDLED', batch_id, sorted(row.id for row in rows.collect()))\n\n"
        "def fail(rows, batch_id):\n    raise ValueError('no such customer')\n"
    )
    run = start_reader("run", "--once", streams)
    assert run.wait() == 3, run.text()[-5000:]
    assert "HANDLED 0 [1, 2]" in run.text()
    assert '{"id": 2, "v": null}' in run.text()
    lines = [line for file in (tmp_path / "json").rglob("part-*.json") for line in file.read_text().splitlines()]
    assert sorted(map(json.loads, lines), key=lambda row: row["id"]) == [{"id": 1, "v": "a"}, {"id": 2, "v": None}]
    failed = find_state(catalog, "broken")
    assert failed.state == "failed"
    assert "The function billing:fail of stream 'broken' failed at batch 0: ValueError: no such customer" in (
        failed.last_error
    )
    assert {find_state(catalog, name).state for name in ("json", "console", "function")} == {"stopped"}
    # A checkpoint that is lost would number its batches anew, over those that are there.
    (streams / "broken.yaml").unlink()
    (streams / "console.yaml").unlink()
    (streams / "function.yaml").unlink()
    (tmp_path / "state" / "json").rename(tmp_path / "state" / "elsewhere")
    again = start_reader("run", "--once", streams / "json.yaml")
    assert again.wait() == 6, again.text()[-5000:]
    assert "holds the batches of another stream or checkpoint" in again.text()
