"""Columns of a source that its table does not have, and tables altered while a pipeline runs (semantics 7.6)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import structlog
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import lakelog.spark
from lakelog import AddColumn, DropColumn, RenameColumn
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import InvalidArgument
from lakelog.format.types.column_changes import ColumnChange
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.spark.given_session import GivenSession
from writer.config import Config, parse_config
from writer.exit_status import ExitStatus
from writer.pipeline.reading import read_pipeline
from writer.wiring import make_events, make_service, open_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
_numbers = itertools.count(1)

SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("name", pa.string())])


@dataclass
class Lab:
    """A pipeline into a table; each run takes what is there."""

    folder: Path
    stack: EmbeddedStack
    table: Table
    session: GivenSession
    lines: list[dict[str, Any]]

    def put(self, name: str, data: str) -> None:
        (self.folder / "in" / name).write_text(data)

    def run(self, source: str, more: str = "") -> ExitStatus:
        name = self.table.info.name.name
        file = self.folder / "p.yaml"
        mode = "upsert" if self.table.info.schema.primary_key else "append"
        file.write_text(
            f"name: {name}\ntable: {self.table.name}\nmode: {mode}\nsource: {source}\n"
            f"trigger: {{available_now: true}}\ncheckpoint: ./state\n{more}"
        )
        config = parse_config(["run", str(file)], {"LAKELOG_TARGET": self.stack.target})
        assert isinstance(config, Config)
        pipeline = read_pipeline(file)
        metastore, target = open_catalog(config, pipeline)
        log = structlog.wrap_logger(structlog.PrintLogger(), processors=[self._keep])
        service, _ = make_service(config, pipeline, metastore, target, make_events(), self.session, log)
        return service.run()

    def _keep(self, _: Any, __: str, event: MutableMapping[str, Any]) -> str:
        self.lines.append(dict(event))
        return str(event)

    def files(self, format_: str) -> str:
        return f"{{type: files, path: ./in, format: {format_}}}"

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table.scan().to_arrow().sort_by("id").to_pylist()
        return found

    def types(self) -> dict[str, str]:
        schema = self.table.info.schema.arrow
        return {field.name: str(field.type) for field in schema}


MakeLab = Callable[..., Lab]


@pytest.fixture
def make_lab(tmp_path: Path, stack: EmbeddedStack, catalog: Catalog, spark: SparkSession) -> MakeLab:
    catalog.create_database("evolving", if_not_exists=True)
    (tmp_path / "in").mkdir()

    def make(**table: Any) -> Lab:
        made = catalog.create_table(f"evolving.t{next(_numbers)}", SCHEMA, **table)
        return Lab(tmp_path, stack, catalog.table(made.name), GivenSession(spark), [])

    return make


ADD = "schema: {evolution: add-columns}\n"


def test_new_columns_of_files_are_added(make_lab: MakeLab, catalog: Catalog) -> None:
    lab = make_lab()
    lab.put("1.csv", "id,name\n1,a\n")
    assert lab.run(lab.files("csv"), ADD) is ExitStatus.FINE
    assert catalog.table(lab.table.name).info.schema.schema_id == 0
    lab.put("2.csv", "id,name,price,day,none\n2,b,1.5,2013-01-01,\n3,c,2,,\n")
    lab.put("3.csv", "id,price,name\n4,7,d\n")
    assert lab.run(lab.files("csv"), ADD) is ExitStatus.FINE
    lab.table = catalog.table(lab.table.name)
    assert lab.types() == {"id": "int32", "name": "string", "price": "double", "day": "date32[day]"}
    assert [(row["id"], row["price"]) for row in lab.rows()] == [(1, None), (2, 1.5), (3, 2.0), (4, 7.0)]
    for path in (lab.folder / "in").iterdir():
        path.unlink()
    # A type that the file itself says is widened.
    pq.write_table(pa.table({"id": [5_000_000_000], "name": ["e"], "more": [[1]]}), lab.folder / "in" / "4.parquet")
    assert lab.run(lab.files("parquet"), ADD) is ExitStatus.FINE
    lab.table = catalog.table(lab.table.name)
    assert (lab.types()["id"], lab.types()["more"]) == ("int64", "list<element: int64>")
    assert lab.rows()[-1] == {"id": 5_000_000_000, "name": "e", "price": None, "day": None, "more": [1]}


def test_a_crash_behind_the_change_leaves_rows_once(
    make_lab: MakeLab, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(primary_key=["id"], options={"bucket": "2"})
    lab.put("1.json", '{"id": 1, "name": "a", "place": {"zip": "x"}, "later": null}\n{"id": 2, "name": "b"}\n')

    def die(*_: Any, **__: Any) -> Any:
        raise InvalidArgument("It ends here, as by a kill.")

    source = '{type: files, path: ./in, format: json, missing_columns: "null"}'
    with monkeypatch.context() as patch:
        patch.setattr(lakelog.spark, "write", die)
        assert lab.run(source, ADD) is not ExitStatus.FINE
    lab.table = catalog.table(lab.table.name)
    assert (lab.table.info.schema.schema_id, lab.rows()) == (1, [])
    assert lab.run(source, ADD) is ExitStatus.FINE
    lab.table = catalog.table(lab.table.name)
    # What is NULL in all of a batch waits for a value, which says what it is.
    assert lab.types() == {"id": "int32", "name": "string", "place": "struct<zip: string>"}
    assert lab.table.info.schema.schema_id == 1
    assert lab.rows() == [{"id": 1, "name": "a", "place": {"zip": "x"}}, {"id": 2, "name": "b", "place": None}]
    lab.put("2.json", '{"id": 3, "name": "c", "later": 7, "place": {"zip": "y", "no": 1}}\n')
    assert lab.run(source, ADD) is ExitStatus.FINE
    lab.table = catalog.table(lab.table.name)
    assert lab.types()["later"] == "int64"
    assert lab.rows()[-1]["later"] == 7


def test_without_it_the_error_says_what_helps(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.put("1.csv", "id,name,price\n1,a,2\n")
    for more in ("", "schema: {evolution: fail}\n"):
        assert lab.run(lab.files("csv"), more) is not ExitStatus.FINE
        said = str(lab.lines)
        assert f"ALTER TABLE {lab.table.name} ADD COLUMN" in said
        assert "'price'" in said
    assert lab.run(lab.files("csv"), "schema: {evolution: ignore}\n") is ExitStatus.FINE
    assert [line["ignored_columns"] for line in lab.lines if line["event"] == "batch committed"] == [["price"]]
    assert lab.rows() == [{"id": 1, "name": "a"}]


def test_a_pipeline_goes_on_while_its_table_is_altered(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make_lab()
    source = "{type: files, path: ./in, format: csv, max_files_per_batch: 1}"
    for number in range(1, 5):
        lab.put(f"{number}.csv", f"id,name\n{number},n{number}\n")
    changes: list[list[ColumnChange]] = [
        [],
        [AddColumn("a", pa.int32()), AddColumn("b", pa.int32(), default=7)],
        # Its rows have the column that goes: they are read again, and written by the next call.
        [AddColumn("c", pa.string()), DropColumn("a")],
        [],
        [RenameColumn("name", "title")],
    ]
    original = lakelog.spark.write

    def write(*arguments: Any, **more: Any) -> Any:
        # Between the look at the table and the write.
        if changes and (due := changes.pop(0)):
            lab.table.alter(columns=due)
        return original(*arguments, **more)

    monkeypatch.setattr(lakelog.spark, "write", write)
    assert lab.run(source) is not ExitStatus.FINE
    assert "has the column 'name', which the table does not have" in str(lab.lines)
    assert lab.rows() == [
        {"id": 1, "title": "n1", "b": 7, "c": None},
        {"id": 2, "title": "n2", "b": 7, "c": None},
        {"id": 3, "title": "n3", "b": 7, "c": None},
    ]


@pytest.mark.parametrize("format_", ["json", "debezium-json"])
def test_new_fields_of_a_topic_are_added(make_lab: MakeLab, catalog: Catalog, kafka_broker: str, format_: str) -> None:
    lab = make_lab(primary_key=["id"], options={"bucket": "2"})
    topic = f"evolving-{lab.table.info.name.name}"
    admin = AdminClient({"bootstrap.servers": kafka_broker, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, 1)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": kafka_broker, "log_level": 0})
    is_json = format_ == "json"
    source = f"{{type: kafka, bootstrap_servers: '{kafka_broker}', topic: {topic}, format: {format_}}}"

    def send(row: dict[str, Any], types: list[dict[str, Any]] | None = None) -> None:
        message: dict[str, Any] = row if is_json else {"before": None, "after": row, "op": "c"}
        if types is not None and not is_json:
            message = {"schema": {"fields": [{"field": "after", "fields": types}]}, "payload": message}
        producer.produce(topic, json.dumps(message).encode(), partition=0)
        producer.flush(30)

    send({"id": 1, "name": "a"})
    assert lab.run(source, ADD) is ExitStatus.FINE
    send({"id": 2, "name": "b", "qty": 5, "note": None})
    assert lab.run(source, "schema: {evolution: fail}\n") is not ExitStatus.FINE
    assert "qty" in str(lab.lines[-1])
    assert f"ALTER TABLE {lab.table.name} ADD COLUMN" in str(lab.lines)
    assert "record at offset 1 of partition 0 of topic" in str(lab.lines)
    assert lab.run(source, ADD) is ExitStatus.FINE
    lab.table = catalog.table(lab.table.name)
    assert lab.types() == {"id": "int32", "name": "string", "qty": "int64"}
    assert lab.rows() == [{"id": 1, "name": "a", "qty": None}, {"id": 2, "name": "b", "qty": 5}]
    if not is_json:
        types = [
            {"field": "id", "type": "int32"},
            {"field": "name", "type": "string"},
            {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        ]
        send({"id": 3, "name": "c", "day": 1, "qty": 6}, types)
        assert lab.run(source, ADD) is ExitStatus.FINE
        lab.table = catalog.table(lab.table.name)
        assert lab.types()["day"] == "date32[day]"
        assert str(lab.rows()[-1]["day"]) == "1970-01-02"
