"""Files of streams: what they say, and what is said of those that say something impossible."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.errors import (
    Fenced,
    HistoryDiverged,
    InvalidArgument,
    LakelogError,
    NotFound,
    SnapshotExpired,
    Unavailable,
)
from lakelog.serving.streams.exit_status import CHECKPOINT_MISFIT
from reader.__main__ import main
from reader.streams.exit_status import FUNCTION_FAILED, ExitStatus, to_exit_status
from reader.streams.reading import read_stream, read_streams
from reader.streams.spec import SinkType

WHOLE = """\
name: orders-copy
target: localhost:7450
source:
  table: shop.orders
  columns: [id, price]
  filter: price > 5
  options: {scan.mode: from-snapshot, scan.snapshot-id: 3, maxRowsPerTrigger: 1000}
sink: {type: parquet, path: ./out, row_kind_column: op}
trigger: {interval: 500 ms}
checkpoint: state/orders
"""


def write(folder: Path, text: str, name: str = "s.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_all_keys(tmp_path: Path) -> None:
    stream = read_stream(write(tmp_path, WHOLE))
    assert (stream.name, stream.target, stream.interval_s) == ("orders-copy", "localhost:7450", 0.5)
    assert stream.checkpoint == tmp_path / "state/orders"
    assert (stream.source.table, stream.source.columns) == ("shop.orders", ("id", "price"))
    assert stream.source.options == {"scan.mode": "from-snapshot", "scan.snapshot-id": "3", "maxRowsPerTrigger": "1000"}
    assert (stream.sink.type, stream.sink.path, stream.sink.row_kind_column) == (
        SinkType.PARQUET,
        tmp_path / "out",
        "op",
    )
    assert (stream.writer, stream.lease) == ("stream-orders-copy", "pipeline/orders-copy")


@pytest.mark.parametrize(
    ("more", "fills"), [("", False), (", missing_columns: error", False), (', missing_columns: "null"', True)]
)
def test_a_sink_says_whether_columns_may_be_missing(tmp_path: Path, more: str, fills: bool) -> None:
    sink = f"{{type: table, table: shop.copy{more}}}"
    text = WHOLE.replace("{type: parquet, path: ./out, row_kind_column: op}", sink)
    assert read_stream(write(tmp_path, text)).sink.fill_missing is fills


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("name: orders-copy", "name: 7", r"s\.yaml:1:\d+: name: '7' is a number, but must be a text"),
        ("name: orders-copy", "nam: x", "there is no such key"),
        (
            "maxRowsPerTrigger: 1000",
            "Table: shop.other",
            r"source\.options: 'Table' is no option here; .* source\.table",
        ),
        ("shop.orders", "orders", r"source\.table: 'orders' is not a table's full name"),
        ("type: parquet", "type: parket", r"sink\.type: 'parket' is not possible \(did you mean parquet"),
        ("path: ./out", "pat: ./out", r"sink\.path: it is missing"),
        ("path: ./out", "path: 's3://b/x'", "is not a folder that can be written to here"),
        ("state/orders", "out/state", "checkpoint: it lies inside the sink's folder"),
        ("{type: parquet, path: ./out, row_kind_column: op}", "{type: table}", r"sink\.table: it is missing"),
        (
            "{type: parquet, path: ./out, row_kind_column: op}",
            "{type: table, table: shop.orders}",
            "its table is the source's",
        ),
        (
            "{type: parquet, path: ./out, row_kind_column: op}",
            "{type: python, function: handle}",
            r"'handle' is no function; write it as module:function",
        ),
        ("{type: parquet, path: ./out, row_kind_column: op}", "{type: console, rows: 0}", r"sink\.rows: '0'"),
        ("{interval: 500 ms}", "{interval: 500 ms, available_now: true}", "an interval contradicts it"),
        ("sink: {", "sinks: {", "sink: it is missing; it says where rows go"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in WHOLE
    with pytest.raises(InvalidArgument, match=problem):
        read_stream(write(tmp_path, WHOLE.replace(old, new)))


def test_files_and_folders_together(tmp_path: Path) -> None:
    write(tmp_path, WHOLE)
    write(tmp_path, WHOLE.replace("orders-copy", "other").replace("state/orders", "state/other"), "t.yml")
    write(tmp_path, "not a stream", "readme.txt")
    assert [stream.name for stream in read_streams([tmp_path, tmp_path / "s.yaml"])] == ["orders-copy", "other"]
    write(tmp_path, WHOLE, "u.yaml")
    with pytest.raises(InvalidArgument, match=r"u\.yaml:\d+:\d+: name: 'orders-copy' is that of .*s\.yaml, too"):
        read_streams([tmp_path])
    write(tmp_path, "name: x\n", "u.yaml")
    write(tmp_path, "[", "v.yaml")
    with pytest.raises(InvalidArgument, match=r"u\.yaml(.|\n)*v\.yaml:1:\d+: this is not YAML"):
        read_streams([tmp_path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match=r"has no file that ends in \.yaml"):
        read_streams([tmp_path / "empty"])
    with pytest.raises(InvalidArgument, match=r"The stream file .* cannot be read"):
        read_streams([tmp_path / "nowhere.yaml"])


def test_a_file_that_cannot_be_read_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "[", "a.yaml")
    good = write(tmp_path, WHOLE)
    assert main(["check", "--file-only", str(tmp_path)]) == ExitStatus.INVALID
    said = capsys.readouterr()
    assert said.out == f"{good}: stream 'orders-copy' is written as it should be.\n"
    assert said.err.startswith(f"{tmp_path / 'a.yaml'}:1:")


def test_each_end_has_an_exit_code() -> None:
    cases: list[tuple[BaseException, ExitStatus]] = [
        (ValueError(), ExitStatus.FAILED),
        (LakelogError("x"), ExitStatus.FAILED),
        (InvalidArgument("x"), ExitStatus.INVALID),
        (InvalidArgument("x", reason=FUNCTION_FAILED), ExitStatus.FUNCTION_FAILED),
        (InvalidArgument("x", reason=CHECKPOINT_MISFIT), ExitStatus.CHECKPOINT),
        (Fenced("x"), ExitStatus.FENCED),
        (Unavailable("x", reason="LEASE_HELD"), ExitStatus.HELD),
        (HistoryDiverged("x"), ExitStatus.CHECKPOINT),
        (SnapshotExpired("x"), ExitStatus.CHECKPOINT),
        (Unavailable("x"), ExitStatus.UNAVAILABLE),
        (NotFound("x"), ExitStatus.MISSING),
    ]
    for error, exit_status in cases:
        assert to_exit_status(error) is exit_status
