"""Pipelines through Spark and a real metastore, in this process: formats, types, kinds, order, bad records, endings."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import structlog

from lakelog.embedded.stack import EmbeddedStack
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.serving.streams.leased_stream import Events
from tests.support.spark.given_session import GivenSession
from writer.config import Config, parse_config
from writer.exit_status import ExitStatus
from writer.pipeline.reading import read_pipeline
from writer.wiring import make_events, make_service, open_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakelog.format.jobs.work import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
_numbers = itertools.count(1)

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
    ]
)


@dataclass
class Lab:
    """A folder, a table, and runs of a pipeline between them until all files are read."""

    folder: Path
    stack: EmbeddedStack
    table: Table
    name: str
    session: GivenSession

    def put(self, name: str, data: str | bytes) -> None:
        path = self.folder / "in" / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    def run(
        self,
        mode: str = "upsert",
        format_: str = "csv",
        more: str = "",
        source: str = "",
        trigger: str = "{available_now: true}",
        events: Events | None = None,
    ) -> ExitStatus:
        file = self.folder / "p.yaml"
        file.write_text(
            f"name: {self.name}\ntable: {self.table.name}\nmode: {mode}\n"
            f"source:\n  type: files\n  path: ./in\n  format: {format_}\n"
            f'  missing_columns: "null"\n{source}\n'
            f"trigger: {trigger}\ncheckpoint: ./state\n{more}"
        )
        config = parse_config(["run", str(file)], {"LAKELOG_TARGET": self.stack.target})
        assert isinstance(config, Config)
        pipeline = read_pipeline(file)
        metastore, target = open_catalog(config, pipeline)
        service, _ = make_service(
            config, pipeline, metastore, target, events or make_events(), self.session, structlog.get_logger()
        )
        return service.run()

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table.scan().to_arrow().sort_by("id").to_pylist()
        return [{k: v for k, v in row.items() if v is not None} for row in found]


@pytest.fixture
def lab(tmp_path: Path, stack: EmbeddedStack, catalog: Catalog, spark: SparkSession,
        ) -> Lab:  # fmt: skip
    """A lab over a table with a primary key, in two buckets."""
    catalog.create_database("lab", if_not_exists=True)
    number = next(_numbers)
    table = catalog.create_table(f"lab.t{number}", SCHEMA, primary_key=["id"], options={"bucket": "2"})
    (tmp_path / "in").mkdir()
    return Lab(tmp_path, stack, table, f"lab{number}", GivenSession(spark))


@pytest.mark.usefixtures("reads")
def test_all_formats_give_the_same_rows(lab: Lab) -> None:
    values = {
        "id": 1,
        "name": 'ż, "x"',
        "price": decimal.Decimal("1.50"),
        "day": dt.date(2013, 7, 1),
        "at": dt.datetime(2013, 7, 1, 12, tzinfo=dt.UTC),
        "local": dt.datetime(2013, 3, 10, 2, 30),  # noqa: DTZ001 -- a time that New York skipped
    }
    lab.put(
        "1.csv", 'id,name,price,day,at,local\n1,"ż, ""x""",1.5,2013-07-01,2013-07-01T14:00+02:00,2013-03-10T02:30:00\n'
    )
    text = {**values, "id": 2, "price": 1.5, "day": "2013-07-01", "at": "2013-07-01T12:00:00Z"}
    lab.put("2.json", json.dumps({**text, "local": "2013-03-10T02:30:00"}) + "\n")
    pq.write_table(pa.Table.from_pylist([{**values, "id": 3}], schema=SCHEMA), lab.folder / "in" / "3.parquet")
    for place, format_ in enumerate(["csv", "json", "parquet"]):
        lab.name = f"{lab.name}{place}"
        (lab.folder / "state").rename(lab.folder / f"state{place}") if place else None
        assert lab.run(format_=format_, source=f'  pattern: "*.{format_}"') is ExitStatus.FINE
    assert lab.rows() == [{**values, "id": number} for number in (1, 2, 3)]


def test_a_folder_that_has_no_files_yet(lab: Lab) -> None:
    assert lab.run() is ExitStatus.FINE
    lab.put("1.csv", "id,name\n1,one\n")
    assert lab.run() is ExitStatus.FINE
    assert lab.rows() == [{"id": 1, "name": "one"}]


def test_a_pipeline_that_follows_waits_for_its_first_file(lab: Lab) -> None:
    events, ends = make_events(), []
    follower = threading.Thread(target=lambda: ends.append(lab.run(trigger="{interval: 200 ms}", events=events)))
    follower.start()
    try:
        time.sleep(1.5)
        lab.put("1.csv", "id,name\n1,one\n")
        give_up_s = time.monotonic() + 60
        while not lab.rows():
            assert follower.is_alive(), ends
            assert time.monotonic() < give_up_s
            time.sleep(0.05)
    finally:
        events.stopping.set()
        events.wake.set()
        follower.join(60)
    assert ends == [ExitStatus.FINE]


def test_a_checkpoint_with_a_batch_of_nothing(lab: Lab) -> None:
    """Spark begins a query with a batch even if nothing waits, and an earlier version let it."""
    assert lab.run() is ExitStatus.FINE
    offsets = lab.folder / "state" / "spark" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n{"batches": 0}')
    lab.put("1.csv", "id,name\n1,one\n")
    assert lab.run() is ExitStatus.FINE
    assert lab.rows() == [{"id": 1, "name": "one"}]


def test_the_later_file_counts(lab: Lab) -> None:
    for number in range(12):
        lab.put(f"{number:02d}.csv", "id,name\n" + "".join(f"{row},file {number}\n" for row in range(number, 12)))
    assert lab.run(source="  max_files_per_batch: 5") is ExitStatus.FINE
    assert [row["name"] for row in lab.rows()] == [f"file {number}" for number in range(12)]
    snapshots = lab.table.snapshots()
    assert snapshots.column("identifier").to_pylist() == [0, 1, 2]
    assert set(snapshots.column("writer").to_pylist()) == {f"pipeline-{lab.name}"}


@pytest.mark.usefixtures("reads")
def test_row_kinds_and_deletes(lab: Lab) -> None:
    lab.put("1.csv", "id,op,name\n1,c,a\n2,c,b\n3,c,c\n")
    lab.put("2.csv", "id,op,name\n1,d,\n2,u,bb\n")
    more = "row_kind: {column: op, values: {c: +I, u: +U, d: -D}}\n"
    assert lab.run(more=more) is ExitStatus.FINE
    assert lab.rows() == [{"id": 2, "name": "bb"}, {"id": 3, "name": "c"}]
    lab.name += "d"
    (lab.folder / "state").rename(lab.folder / "state1")
    for file in (lab.folder / "in").iterdir():
        file.unlink()
    lab.put("1.csv", "id\n3\n9\n")
    assert lab.run(mode="delete") is ExitStatus.FINE
    assert lab.rows() == [{"id": 2, "name": "bb"}]


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_batches_bring_the_changelog(lab: Lab, catalog: Catalog, producer: str) -> None:
    lab.table.alter(set={"changelog-producer": producer})
    lab.put("1.csv", "id,op,name\n1,c,a\n2,c,b\n3,c,c\n")
    lab.put("2.csv", "id,op,name\n1,d,\n2,u,bb\n2,u,bbb\n9,d,\n")
    more = "row_kind: {column: op, values: {c: +I, u: +U, d: -D}}\n"
    assert lab.run(more=more, source="  max_files_per_batch: 1") is ExitStatus.FINE
    reported = [
        (row["_snapshot_id"], row["id"], row["_row_kind"], row["name"])
        for row in lab.table.changes(columns=["id", "name", "_row_kind", "_snapshot_id"]).to_arrow().to_pylist()
    ]
    wanted: dict[str, list[tuple[int, int, str, str | None]]] = {
        "input": [(2, 1, "-D", None), (2, 2, "+U", "bb"), (2, 2, "+U", "bbb"), (2, 9, "-D", None)],
        "lookup": [(2, 1, "-D", "a"), (2, 2, "-U", "b"), (2, 2, "+U", "bbb")],
    }
    first = [(1, 1, "+I", "a"), (1, 2, "+I", "b"), (1, 3, "+I", "c")]
    assert sorted(reported, key=lambda row: row[:2]) == [*first, *wanted[producer]]
    changelog = catalog.metastore.plan(PlanRequest(lab.table.uuid, InRange(0, 2), changelog=True)).files
    assert changelog.num_rows > 0, "the commits brought it themselves"


@pytest.mark.usefixtures("reads")
def test_dead_letters_and_a_batch_of_nothing_else(lab: Lab, catalog: Catalog) -> None:
    lab.put("1.csv", "id,name\nx,1\ny,2\n")
    lab.put("2.csv", "id,name\n1,a\nz,3\n2,b\n")
    lab.put("3.csv", b"\x00\xff")
    more = "bad_records: dead-letter\ndead_letters: ./dead\n"
    assert lab.run(more=more, source="  max_files_per_batch: 1") is ExitStatus.FINE
    assert [row["id"] for row in lab.rows()] == [1, 2]
    letters = [
        json.loads(line) for path in sorted((lab.folder / "dead").iterdir()) for line in path.read_text().splitlines()
    ]
    assert [(letter["file"], letter["batch_id"], letter["line"]) for letter in letters] == [
        ("1.csv", 0, 2), ("1.csv", 0, 3), ("2.csv", 1, 3), ("3.csv", 2, None)
    ]  # fmt: skip
    assert lab.table.snapshots().column("identifier").to_pylist() == [1]
    report = next(found for found in catalog.metastore.list_pipelines() if found.name == lab.name)
    assert (report.last_batch_id, report.total_rows, report.dead_letter_rows) == (2, 2, 4)
    assert (report.state, report.position) == ("stopped", "3 of 3 files")
    lab.put("4.csv", "id,name\n3,c\n")
    assert lab.run(more=more, source="  max_files_per_batch: 1") is ExitStatus.FINE
    assert [row["id"] for row in lab.rows()] == [1, 2, 3]


def test_endings(lab: Lab, catalog: Catalog) -> None:
    def report() -> Pipeline:
        return next(found for found in catalog.metastore.list_pipelines() if found.name == lab.name)

    def last_error() -> str:
        return report().last_error

    lab.put("1.csv", "id,name\n1,a\nx,b\n")
    assert lab.run() is ExitStatus.BAD_RECORD
    assert (report().state, report().position, report().lag) == ("failed", "0 of 1 files", 1)
    assert f"{lab.folder}/in/1.csv, line 3: column 'id' has 'x'" in last_error()
    assert lab.rows() == []
    assert lab.run(mode="append") is ExitStatus.INVALID
    assert "use mode: upsert" in last_error()
    assert lab.run(source="  columns: {nmae: name}") is ExitStatus.INVALID
    assert "source.columns.nmae" in last_error()
    grant = catalog.metastore.acquire_lease(f"pipeline/{lab.name}", "another", 60_000)
    assert grant.acquired
    catalog.metastore.release_lease(f"pipeline/{lab.name}", grant.epoch)
    lab.put("1.csv", "id,name\n1,a\n")
    assert lab.run() is ExitStatus.FINE
    assert lab.rows() == [{"id": 1, "name": "a"}]


def test_a_repaired_file_is_read_and_a_lost_checkpoint_is_noticed(lab: Lab, catalog: Catalog) -> None:
    lab.put("1.csv", "id,name\n1,a\n")
    lab.put("2.csv", "id,name\nten,x\n")
    assert lab.run() is ExitStatus.BAD_RECORD
    report = next(found for found in catalog.metastore.list_pipelines() if found.name == lab.name)
    assert (report.state, report.last_batch_id) == ("failed", None)
    assert f"{lab.folder}/in/2.csv, line 2: column 'id' has 'ten'" in report.last_error
    assert lab.rows() == []
    lab.put("2.csv", "id,name\n10,x\n")
    assert lab.run() is ExitStatus.FINE
    assert lab.rows() == [{"id": 1, "name": "a"}, {"id": 10, "name": "x"}]

    (lab.folder / "state").rename(lab.folder / "elsewhere")
    assert lab.run() is ExitStatus.CHECKPOINT
    report = next(found for found in catalog.metastore.list_pipelines() if found.name == lab.name)
    assert "Checkpoint and table do not fit" in report.last_error
    assert str(lab.folder / "state") in report.last_error
    assert lab.rows() == [{"id": 1, "name": "a"}, {"id": 10, "name": "x"}]
