"""Services on a cluster whose executors and workers are killed in the middle of work: each row once, nothing is left.

A seed chooses the service. Executors write to S3 through a proxy that holds some of their files back, so a kill always
comes when some files of a commit are written and others are not.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.embedded.ports import free_ports
from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, JobState, to_bucket_scope
from lakelog.sdk.tables.table import Table
from lakelog.spark.session.gateway import find_spark_home
from lakelog.testing.history import Write
from tests.e2e.spark_cluster.world import World

KEYED = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
ROWS = 400


def make_values(number: int, first: int) -> pa.Table:
    """Rows of a write; each value is unique."""
    keys = range(first, first + ROWS)
    return pa.table({"k": keys, "v": [f"{number}.{key}" for key in keys]}, schema=KEYED)


def to_write(writer: str, number: int, table: str, rows: pa.Table) -> Write:
    return Write(writer, number, {table: tuple(rows.column("v").to_pylist())}, "acknowledged")


def take_files(world: World) -> None:
    """A pipeline of files into a table whose changelog is looked up. An executor dies, then a whole machine."""
    table = world.catalog.create_table(
        "d.taken", KEYED, primary_key=["k"], options={"bucket": "4", "changelog-producer": "lookup"}
    )
    # Half of the keys exist, so that old rows are looked up.
    first = make_values(0, 0)
    table.upsert(first)
    folder = world.folder / "source"
    (folder / "in").mkdir(parents=True)
    files = [make_values(number, number * ROWS - ROWS // 2) for number in (1, 2)]
    for number, rows in enumerate(files, 1):
        lines = "".join(f"{row['k']},{row['v']}\n" for row in rows.to_pylist())
        (folder / "in" / f"{number}.csv").write_text(f"k,v\n{lines}")
    pipeline = folder / "pipeline.yaml"
    pipeline.write_text(
        f"name: taken\ntable: {table.name}\nmode: upsert\n"
        "source: {type: files, path: ./in, format: csv, max_files_per_batch: 1}\n"
        "trigger: {available_now: true}\ncheckpoint: ./state\n"
    )
    with world.writes_held(table, after=1, begin=lambda: world.start_service("writer", "run", str(pipeline))):
        world.kill_executor(world.cluster.machines[0])
        # The next batch comes by itself, so its files are held from the beginning.
    with world.writes_held(table, after=6):
        world.kill_machine(world.cluster.machines[0])
    (writer,) = world.drivers
    assert writer.wait() == 0, writer.text()
    writes = [to_write("p", number, table.name, rows) for number, rows in enumerate((first, *files))]
    assert world.check(table, writes) == []
    # Control: the check finds rows that it is not to expect.
    assert world.check(table, writes[:-1])
    assert world.orphans(table) == set()


def compact(world: World) -> None:
    """A compaction of a large bucket. A machine dies, and the job is done by the other one."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.binary())])
    table = world.catalog.create_table("d.large", schema, options={"target-file-size": "16 mb"})
    random = np.random.default_rng(1)
    for number in range(12):
        values = [random.bytes(1 << 20) for _ in range(7)]
        table.append(pa.table({"k": range(number * 7, number * 7 + 7), "v": values}, schema=schema))
    world.catalog.metastore.request_jobs(table.uuid, COMPACT, [to_bucket_scope(b"", 0)], {STRATEGY: FULL})
    before = set(table.files()["path"].to_pylist())
    arguments = ("run", "--tables", table.name, "--once")
    with world.writes_held(table, after=1, begin=lambda: world.start_service("compactor", *arguments)):
        world.kill_machine(world.cluster.machines[0])
    (compactor,) = world.drivers
    assert compactor.wait() == 0, compactor.text()
    jobs = world.catalog.metastore.list_jobs([table.uuid])
    assert [job.state for job in jobs if job.kind == COMPACT] == [JobState.DONE]
    assert "starting Spark" in compactor.text()
    table = world.catalog.table("d.large")
    after = set(table.files()["path"].to_pylist())
    assert not before & after
    # compact-NUMBER-TASK_ATTEMPT-FILE-BUCKET
    assert len({Path(path).name.split("-")[2] for path in after}) > 1, "they were written by tasks"
    assert sorted(table.scan(["k"]).to_arrow().column("k").to_pylist()) == list(range(84))
    assert world.orphans(table) == set()


def has_snapshots(world: World, table: Table, count: int) -> bool:
    return int(world.catalog.table(table.name).snapshots().num_rows) == count


def stream(world: World) -> None:
    """A stream from a table to a table; executors get lakelog with it. An executor dies, then a whole machine."""
    options = {"bucket": "4", "changelog-producer": "input"}
    source = world.catalog.create_table("d.from", KEYED, primary_key=["k"], options=options)
    sink = world.catalog.create_table("d.into", KEYED, primary_key=["k"], options=options)
    batches = [make_values(number, number * ROWS) for number in range(2)]
    file = world.folder / "stream.yaml"
    file.write_text(
        f"name: s\nsource: {{table: {source.name}}}\nsink: {{type: table, table: {sink.name}}}\n"
        "trigger: {interval: 1s}\ncheckpoint: ./state\n"
    )
    with world.cluster.without_installations() as conf:
        world.start_service("reader", "run", str(file), conf=conf)
        for number, kill in enumerate((world.kill_executor, world.kill_machine)):
            with world.writes_held(sink, after=1, begin=partial(source.upsert, batches[number])):
                kill(world.cluster.machines[0])
            world.until(partial(has_snapshots, world, sink, number + 1))
    writes = [to_write("s", number, sink.name, rows) for number, rows in enumerate(batches)]
    assert world.check(sink, writes) == []
    assert world.check(sink, writes[:-1])
    assert world.orphans(sink) == set()


def run_program(world: World) -> None:
    """A program of a user: executors have nothing of its machine, and say what they lack. A machine dies."""
    keyed = {"bucket": "4", "changelog-producer": "lookup"}
    table = world.catalog.create_table("d.own", KEYED, primary_key=["k"], options=keyed)
    copy = world.catalog.create_table("d.copied", KEYED)
    program = Path(__file__).with_name("cluster_program.py")
    sites = [str(machine.site) for machine in world.cluster.machines]
    conf = [f"{key}={value}" for key, value in world.cluster.conf.items()]
    arguments = (world.cluster.url, table.name, copy.name, str(ROWS), "|".join(sites), *conf)
    command = [sys.executable, str(program), *arguments]
    with world.writes_held(table, after=1, begin=lambda: world.start_program(command)):
        world.kill_machine(world.cluster.machines[1])
    (driver,) = world.drivers
    assert driver.wait() == 0, driver.text()
    assert "FOUND" in driver.text(), driver.text()
    writes = [
        Write("w", number, {table.name: tuple(f"{number}.{key}" for key in range(ROWS))}, "acknowledged")
        for number in range(2)
    ]
    assert world.check(table, writes) == []
    assert world.check(table, writes[:-1])
    assert world.orphans(table) == set()
    assert world.catalog.table(copy.name).scan().count() == ROWS


def serve_clients(world: World) -> None:
    """A server of Spark Connect writes, reads and streams for a client. A machine dies."""
    needed = find_spec("grpc_status")
    assert needed is not None, "a package of pyspark[connect], which the lock names"
    assert needed.origin is not None
    table = world.catalog.create_table("d.of_client", KEYED)
    copy = world.catalog.create_table("d.of_client_copied", KEYED)
    (port,) = free_ports(1)
    conf = {**world.cluster.conf, "spark.connect.grpc.binding.port": str(port)}
    conf["spark.connect.grpc.binding.address"] = "127.0.0.1"
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    submit = str(find_spark_home() / "bin" / "spark-submit")
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    world.start_program([submit, "--master", world.cluster.url, *words, "--class", server, "spark-internal"])
    world.until(lambda: is_listening(port))
    program = str(Path(__file__).with_name("connect_program.py"))
    client = [sys.executable, program, f"sc://127.0.0.1:{port}", table.name, copy.name, str(ROWS)]
    packages = {"PACKAGES": str(Path(needed.origin).parents[1])}
    with world.writes_held(table, after=1, begin=lambda: world.start_program(client, packages)):
        world.kill_machine(world.cluster.machines[0])
    assert world.drivers[1].wait() == 0, world.drivers[1].text()
    write = Write("c", 0, {table.name: tuple(f"0.{key}" for key in range(ROWS))}, "acknowledged")
    assert world.check(table, [write]) == []
    assert world.check(table, [])
    assert world.orphans(table) == set()
    assert sorted(world.catalog.table(copy.name).scan(["k"]).to_arrow().column("k").to_pylist()) == list(range(ROWS))


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


SERVICES: tuple[Callable[[World], None], ...] = (take_files, compact, stream, run_program, serve_clients)
"""By seed."""


@pytest.mark.parametrize("seed", range(len(SERVICES)))
def test_machines_that_die_cost_no_row_and_double_none(world: World, seed: int) -> None:
    SERVICES[seed](world)
