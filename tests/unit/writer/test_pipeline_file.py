"""Pipeline files: what they may say, and what each mistake gets: file, line, column, key, value, remedy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, LakelogError, NotFound
from lakelog.format.tables.table import TableName
from metastore.testing import InProcessMetastore
from writer.__main__ import main
from writer.exit_status import ExitStatus, to_exit_status
from writer.pipeline.columns import ColumnSource
from writer.pipeline.reading import read_pipeline
from writer.pipeline.spec import BadRecords, Evolution, FileSource, Format, Mode, Order
from writer.wiring import check_pipeline

GOOD = """\
name: flights
table: nyc.flights
mode: upsert
source:
  type: files
  path: ./incoming
  format: csv
checkpoint: ./state
"""


def read(folder: Path, text: str) -> str:
    """The complaint about a file, without the file's name."""
    file = folder / "p.yaml"
    file.write_text(text)
    with pytest.raises(InvalidArgument) as caught:
        read_pipeline(file)
    assert caught.value.reason == "PIPELINE_FILE"
    return caught.value.message.replace(f"{file}:", "")


def test_smallest(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    pipeline = read_pipeline(tmp_path / "p.yaml")
    assert isinstance(pipeline.source, FileSource)
    assert (pipeline.name, pipeline.table, pipeline.mode) == ("flights", "nyc.flights", Mode.UPSERT)
    assert pipeline.source.path == tmp_path / "incoming"
    assert pipeline.checkpoint == tmp_path / "state"
    assert (pipeline.source.format, pipeline.source.order) == (Format.CSV, Order.NAME)
    assert (pipeline.source.ignore_unknown, pipeline.source.fill_missing) == (False, False)
    assert (pipeline.interval_s, pipeline.bad_records, pipeline.dead_letters) == (5.0, BadRecords.STOP, None)
    assert (pipeline.writer, pipeline.lease) == ("pipeline-flights", "pipeline/flights")


def test_everything(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        """
name: a-b
target: "127.0.0.1:7450"
table: s.t
mode: upsert
row_kind: {column: op, values: {c: +I, d: -D}}
source:
  type: files
  path: /data/in
  pattern: "*.csv.gz"
  recursive: true
  format: csv
  order: modified
  max_files_per_batch: 7
  unknown_columns: ignore
  missing_columns: "null"
  columns:
    id: key
    day: {from: d, format: ["%d/%m/%Y", "%Y"]}
  options: {header: false, names: [key, d, 1], delimiter: ";", quote: "", null_values: [NA, null, ""], timezone: UTC}
trigger: {interval: 500 ms}
checkpoint: /data/state
bad_records: dead-letter
dead_letters: /data/dead
properties: {team: air, run: 7}
"""
    )
    pipeline = read_pipeline(tmp_path / "p.yaml")
    source = pipeline.source
    assert isinstance(source, FileSource)
    assert source.columns == {"id": ColumnSource("key"), "day": ColumnSource("d", ("%d/%m/%Y", "%Y"))}
    assert source.text.names == ("key", "d", "1")
    assert (source.text.quote, source.text.null_values) == (None, ("NA", "null", ""))
    assert (source.pattern, source.recursive, source.order, source.max_files_per_batch) == (
        "*.csv.gz",
        True,
        Order.MODIFIED,
        7,
    )
    assert (source.ignore_unknown, source.fill_missing) == (True, True)
    assert pipeline.row_kind is not None
    assert pipeline.row_kind.values == {"c": "+I", "d": "-D"}
    assert (pipeline.interval_s, pipeline.dead_letters) == (0.5, Path("/data/dead"))
    assert pipeline.properties == {"team": "air", "run": "7"}


def test_available_now(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD + "trigger: {available_now: true}\n")
    assert read_pipeline(tmp_path / "p.yaml").interval_s is None


@pytest.mark.parametrize(
    ("old", "new", "place", "parts"),
    [
        ("name: flights", "name: 1st", "1:7", ["name", "'1st'", "no digit first"]),
        ("name: flights", "name: 12", "1:7", ["name", "'12'", "a number", "quotes"]),
        ("name: flights", "name:", "1:1", ["name", "missing", "name: flights"]),
        ("table: nyc.flights", "table: flights", "2:8", ["'flights'", "database.table"]),
        ("table: nyc.flights\n", "", "1:1", ["table", "missing"]),
        ("mode: upsert", "mode: upsrt", "3:7", ["'upsrt'", "did you mean upsert", "append, upsert, delete"]),
        ("mode: upsert", "mod: upsert", "3:1", ["mod", "no such key", "did you mean mode"]),
        ("mode: upsert", "mode: upsert\nmode: append", "4:1", ["mode", "twice", "line 3"]),
        ("  type: files", "  type: s3", "5:9", ["source.type", "'s3'", "use files, kafka"]),
        ("  path: ./incoming", "  path: s3://b/x", "6:9", ["source.path", "s3://b/x", "file system"]),
        ("  path: ./incoming", "  pth: ./incoming", "6:3", ["source.pth", "did you mean path"]),
        ("  format: csv", "  format: avro", "7:11", ["source.format", "'avro'", "csv, json, parquet"]),
        ("  format: csv", "  format: csv\n  max_files_per_batch: 0", "8:24", ["source.max_files_per_batch", "'0'"]),
        ("  format: csv", "  format: csv\n  max_files_per_batch: many", "8:24", ["'many'", "whole number from 1"]),
        ("  format: csv", "  format: csv\n  missing_columns: null", "8:20", ["missing_columns", "put it into quotes"]),
        ("  format: csv", "  format: csv\n  recursive: maybe", "8:14", ["'maybe'", "neither true nor false"]),
        ("  format: csv", "  format: csv\n  pattern: a/b", "8:12", ["source.pattern", "without folders"]),
        ("  format: csv", "  format: csv\n  options: {delimiter: ab}", "8:24", ["source.options.delimiter", "'ab'"]),
        ("  format: csv", "  format: csv\n  options: {timezone: Mars}", "8:23", ["'Mars'", "Europe/Paris"]),
        ("  format: csv", "  format: csv\n  options: {encoding: utf9}", "8:23", ["'utf9'", "latin-1"]),
        ("  format: csv", "  format: csv\n  options: {date_format: dmy}", "8:26", ["'dmy'", "%d"]),
        ("  format: csv", "  format: csv\n  options: {header: false}", "8:21", ["names"]),
        ("  format: csv", "  format: json\n  options: {delimiter: x}", "8:24", ["no meaning for JSON"]),
        ("  format: csv", "  format: csv\n  columns: [a]", "8:12", ["source.columns", "a list", "section"]),
        ("checkpoint: ./state", "checkpoint: ./incoming/state", "8:13", ["checkpoint", "inside the source's folder"]),
        ("checkpoint: ./state", "checkpoint: ./s\nbad_records: dead-letter", "9:14", ["needs a folder"]),
        ("checkpoint: ./state", "checkpoint: ./s\ndead_letters: ./d", "9:15", ["would stay empty"]),
        ("checkpoint: ./state", "checkpoint: ./s\ntrigger: {interval: soon}", "9:21", ["'soon'", "'1 h'"]),
        ("checkpoint: ./state", "checkpoint: ./s\ntrigger: {interval: 5}", "9:21", ["'5' is", "'5 s'", "'5 ms'"]),
        ("checkpoint: ./state", "checkpoint: ./s\ntrigger: {interval: 0 s}", "9:21", ["'0 s'", "0.05 s"]),
        (
            "checkpoint: ./state",
            "checkpoint: ./s\ntrigger: {interval: 5 s, available_now: true}",
            "9:41",
            ["an interval contradicts it"],
        ),
        ("checkpoint: ./state", "checkpoint: ./s\nrow_kind: {column: op, values: {x: +X}}", "9:32", ["x: +X", "+I"]),
        ("mode: upsert", "mode: delete\nrow_kind: op", "4:11", ["row_kind", "'delete' contradicts"]),
        ("source:\n", "source: here\nsources:\n", "4:9", ["source", "a text", "section of keys"]),
        ("  path: ./incoming", "  path: 'x", "9:1", ["not YAML"]),
        ("name: flights", "name: [a", "2:6", ["not YAML"]),
        ("name: flights", "name: {a: b}", "1:7", ["name", "a section", "single text"]),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, place: str, parts: list[str]) -> None:
    assert old in GOOD
    message = read(tmp_path, GOOD.replace(old, new))
    line = next((line for line in message.splitlines() if line.startswith(f"{place}: ")), None)
    assert line is not None, message
    assert all(part in line for part in parts), message


def test_all_mistakes_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    message = read(tmp_path, GOOD.replace("upsert", "merge").replace("csv", "xml") + "colour: red\n")
    assert [line.split(":")[0] for line in message.splitlines()] == ["3", "7", "9"]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "empty"),
        (b"name: \xff\n", "not UTF-8"),
        (b"- a\n- b\n", "a list, but must be a section"),
        (b"x" * (1 << 20) + b"y", "more than"),
        (b"[" * 5000, "not YAML"),
    ],
)
def test_not_a_pipeline(tmp_path: Path, data: bytes, part: str) -> None:
    (tmp_path / "p.yaml").write_bytes(data)
    with pytest.raises(InvalidArgument, match=part):
        read_pipeline(tmp_path / "p.yaml")


@pytest.mark.parametrize(("old", "key"), [("./state", "checkpoint"), ("./incoming", "source.path")])
def test_what_is_left_empty_is_missing_and_no_more(tmp_path: Path, old: str, key: str) -> None:
    (complaint,) = read(tmp_path, GOOD.replace(old, "")).splitlines()
    assert f"{key}: it is missing" in complaint


def test_check_reports_all_files_without_a_metastore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, worse = (tmp_path / name for name in ("good.yaml", "bad.yaml", "worse.yaml"))
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("upsert", "upset"))
    worse.write_text("name: 1st\n")
    assert main(["check", "--file-only", str(good)]) == ExitStatus.FINE
    assert main(["check", "--file-only", str(good), str(bad), str(worse)]) == ExitStatus.INVALID
    reported = capsys.readouterr().err
    assert f"{bad}:3:7: mode: 'upset' is not possible" in reported
    assert f"{worse}:1:7: name: '1st' is not possible" in reported


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"nowhere\.yaml cannot be read: No such file"):
        read_pipeline(tmp_path / "nowhere.yaml")


def test_what_does_not_fit_the_table_comes_with_its_place(metastore: InProcessMetastore, tmp_path: Path) -> None:
    metastore.create_database("nyc")
    metastore.create_table(TableName("nyc", "flights"), pa.schema([pa.field("id", pa.int64())]))
    file = tmp_path / "p.yaml"
    file.write_text(GOOD.replace("  format: csv", "  format: csv\n  columns:\n    nr: {from: x}"))
    with pytest.raises(LakelogError) as caught:
        check_pipeline(metastore, read_pipeline(file))
    assert [line.split(": ")[:2] for line in caught.value.message.splitlines()] == [
        [f"{file}:3:7", "mode"],
        [f"{file}:6:9", "source.path"],
        [f"{file}:9:9", "source.columns.nr"],
    ]
    assert to_exit_status(caught.value) is ExitStatus.MISSING
    file.write_text(GOOD.replace("nyc.flights", "nyc.none"))
    with pytest.raises(NotFound, match=r"p\.yaml:2:8: table: "):
        check_pipeline(metastore, read_pipeline(file))


@pytest.mark.parametrize(
    ("given", "evolution", "ignores"),
    [("fail", Evolution.FAIL, False), ("add-columns", Evolution.ADD_COLUMNS, True), ("ignore", Evolution.IGNORE, True)],
)
def test_what_becomes_of_new_columns(tmp_path: Path, given: str, evolution: Evolution, ignores: bool) -> None:
    (tmp_path / "p.yaml").write_text(f"{GOOD}schema:\n  evolution: {given}\n")
    pipeline = read_pipeline(tmp_path / "p.yaml")
    assert (pipeline.evolution, pipeline.source.ignore_unknown) == (evolution, ignores)


def test_new_columns_are_spoken_of_once(tmp_path: Path) -> None:
    assert "schema.evolution" in read(tmp_path, f"{GOOD}schema:\n  evolution: all\n")
    assert "schema.evolution" in read(tmp_path, f"{GOOD}schema: {{}}\n")
    twice = GOOD.replace("  format: csv\n", "  format: csv\n  unknown_columns: ignore\n")
    assert "source.unknown_columns says the same" in read(tmp_path, f"{twice}schema:\n  evolution: ignore\n")
