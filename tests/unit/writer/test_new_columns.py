"""Columns that the files of a batch bring: found before it is read, then added, refused or ignored."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableName
from lakelog.format.types.column_changes import AddColumn, DropColumn, RenameColumn
from lakelog.records.inferred_types import join_schemas
from metastore.testing import InProcessMetastore
from writer.files.tasks import TakenFile
from writer.pipeline.reading import read_pipeline
from writer.pipeline.spec import Format
from writer.records.discovery import SCHEMA_COLUMN, file_discoverer
from writer.records.target import Target
from writer.records.tasks import ReadTask, read_file
from writer.wiring import make_target

COLUMNS = pa.schema([pa.field("id", pa.int32()), pa.field("name", pa.string())])


class Lab:
    """A folder of files, a table, and the pipeline between them up to what Spark would get."""

    def __init__(self, folder: Path, metastore: InProcessMetastore) -> None:
        self.folder, self.metastore = folder, metastore
        (folder / "in").mkdir()
        metastore.create_database("s", if_not_exists=False, comment="")
        self.table, _ = metastore.create_table(TableName("s", "t"), COLUMNS)

    def make_target(self, format_: str, more: str) -> Target:
        file = self.folder / "p.yaml"
        file.write_text(
            f"name: p\ntable: s.t\nmode: append\nsource: {{type: files, path: ./in, format: {format_}}}\n"
            f"checkpoint: ./state\n{more}"
        )
        return make_target(read_pipeline(file), self.metastore)

    def read(self, target: Target, format_: str) -> pa.Table:
        """The rows of all files, after a look at their columns."""
        paths = sorted((self.folder / "in").iterdir())
        files = [
            TakenFile(0, number, path.name, path.stat().st_size, path.stat().st_mtime_ns // 1000)
            for number, path in enumerate(paths)
        ]

        def make_task() -> ReadTask:
            return ReadTask(
                "p", 0, self.folder / "in", Format(format_), target.coercion, None, evolution=target._pipeline.evolution
            )

        target.refresh()
        if target.looks_ahead:
            numbers = pa.record_batch({"number": pa.array(range(len(files)))})
            tasks = file_discoverer(make_task(), [[file] for file in files])
            found = [each for batch in tasks(iter([numbers])) for each in batch.column(SCHEMA_COLUMN).to_pylist()]
            schema = join_schemas(pa.ipc.read_schema(pa.py_buffer(each)) for each in found)
            target.add_columns(schema, are_typed=format_ == "parquet")
        batches = [batch for file in files for batch in read_file(make_task(), file)]
        return pa.Table.from_batches(batches, target.coercion.output)


@pytest.fixture
def lab(tmp_path: Path, metastore: InProcessMetastore) -> Lab:
    return Lab(tmp_path, metastore)


ADD = "schema: {evolution: add-columns}\n"


def test_csv(lab: Lab) -> None:
    target = lab.make_target("csv", ADD)
    (lab.folder / "in" / "1.csv").write_text("id,name\n1,a\n")
    assert lab.read(target, "csv").to_pylist() == [{"id": 1, "name": "a"}]
    (lab.folder / "in" / "2.csv").write_text("id,name,n,none\n2,b,7,\n")
    (lab.folder / "in" / "3.csv.gz").write_bytes(gzip.compress(b"n,id,day,name\n1.5,3,2013-01-01,c\n"))
    assert [list(row.values())[:3] for row in lab.read(target, "csv").to_pylist()] == [
        [1, "a", None], [2, "b", 7.0], [3, "c", 1.5],
    ]  # fmt: skip
    assert target.info.schema.arrow.names == ["id", "name", "n", "day"]
    # Found there by another pipeline, which may not add any.
    assert len(lab.read(lab.make_target("csv", "schema: {evolution: ignore}\n"), "csv")) == 3
    with pytest.raises(InvalidArgument, match=r"'none', which the table does not have.*ALTER TABLE s\.t ADD COLUMN"):
        lab.read(lab.make_target("csv", ""), "csv")


def test_parquet_says_its_types(lab: Lab) -> None:
    target = lab.make_target("parquet", ADD)
    wide = pa.table({"id": [2**40], "name": ["a"], "more": [{"x": [1]}]})
    pq.write_table(wide, lab.folder / "in" / "1.parquet")
    assert lab.read(target, "parquet").to_pylist() == wide.to_pylist()
    assert target.info.schema.arrow.field("id").type == pa.int64()


def test_names_that_differ_by_case_are_refused(lab: Lab) -> None:
    (lab.folder / "in" / "1.csv").write_text("id,Name\n1,a\n")
    with pytest.raises(InvalidArgument, match=r"'Name', and table s\.t has 'name', which is the same name in SQL"):
        lab.read(lab.make_target("csv", ADD), "csv")


def test_a_table_that_is_altered_meanwhile(lab: Lab) -> None:
    target = lab.make_target("csv", "")
    (lab.folder / "in" / "1.csv").write_text("id,name\n1,a\n")
    changes = [AddColumn("n", pa.int32()), AddColumn("d", pa.string(), default="-")]
    lab.metastore.alter_columns(lab.table.table_uuid, changes=changes)
    assert lab.read(target, "csv").to_pylist() == [{"id": 1, "name": "a", "n": None, "d": "-"}]
    # A pipeline that begins later knows it as well.
    assert len(lab.read(lab.make_target("csv", ""), "csv")) == 1
    lab.metastore.alter_columns(lab.table.table_uuid, changes=[DropColumn("n"), RenameColumn("name", "title")])
    with pytest.raises(InvalidArgument, match="has the column 'name', which the table does not have"):
        lab.read(target, "csv")
    lab.metastore.alter_columns(lab.table.table_uuid, changes=[RenameColumn("title", "name")])
    assert lab.read(target, "csv").to_pylist() == [{"id": 1, "name": "a", "d": "-"}]


def test_json_gets_defaults_where_a_record_leaves_a_column_out(lab: Lab) -> None:
    lab.metastore.alter_columns(lab.table.table_uuid, changes=[AddColumn("d", pa.string(), default="-")])
    lines = ['{"id": 1, "name": "a"}', '{"id": 2, "name": "b", "d": null}', '{"id": 3, "name": "c", "d": "x"}']
    (lab.folder / "in" / "1.json").write_text("\n".join(lines) + "\n")
    target = lab.make_target("json", ADD)
    assert [row["d"] for row in lab.read(target, "json").to_pylist()] == ["-", None, "x"]


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_what_is_ignored_is_noted(lab: Lab, format_: str) -> None:
    rows = pa.table({"id": [1], "name": ["a"], "n": [7], "none": pa.array([None], pa.string())})
    path = lab.folder / "in" / f"1.{format_}"
    if format_ == "parquet":
        pq.write_table(rows, path)
    else:
        path.write_text("id,name,n,none\n1,a,7,\n" if format_ == "csv" else json.dumps(rows.to_pylist()[0]) + "\n")
    target = lab.make_target(format_, "schema: {evolution: ignore}\n")
    assert lab.read(target, format_).to_pylist() == [{"id": 1, "name": "a"}]
    assert target.ignored == ("n", "none")
    assert target.info.schema.schema_id == 0
    path.unlink()
    (lab.folder / "in" / "2.json").write_text('{"id": 2, "name": "b"}\n')
    assert len(lab.read(target, "json")) == 1
    assert not target.ignored
