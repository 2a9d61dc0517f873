"""`lakelog insert` of many files over a metastore in this process: what is found, jobs, and what goes wrong."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.cli.app import run
from lakelog.cli.commands.rows import insert_files
from lakelog.cli.input.source_paths import SourceFile
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.printer import Printer
from lakelog.cli.output.text import format_bytes
from lakelog.progress import tracking
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

pytestmark = pytest.mark.parametrize("metastore", ["memory"], indirect=True)

Insert = Callable[..., tuple[int, str, str]]
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string())])


@pytest.fixture
def log(catalog: Catalog) -> Table:
    return catalog.create_table("shop.log", SCHEMA)


@pytest.fixture
def insert(catalog: Catalog, log: Table, capsys: pytest.CaptureFixture[str]) -> Insert:
    def call(*arguments: object) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        invocation = Invocation(
            open_catalog=lambda _: catalog, make_printer=lambda output: Printer(output, out, err, width=160)
        )
        # The metastore is the fixture's to close.
        invocation.close = lambda: None  # type: ignore[method-assign]
        code = run(["insert", "shop.log", *map(str, arguments)], invocation)
        captured = capsys.readouterr()
        return code, captured.out + out.getvalue(), captured.err + err.getvalue()

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight rows in seven files of all formats, and what is no data beside them."""
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "_temporary").mkdir()
    (folder / "a.csv").write_text("id,item\n1,tea\n2,\n")
    (folder / "b.csv.gz").write_bytes(gzip.compress(b"id,item\n3,cup\n"))
    (folder / "c.jsonl").write_text('{"id": 4, "item": "pot"}\n')
    rows = [pa.table({"id": [number], "item": ["x"]}, SCHEMA) for number in range(5, 9)]
    pq.write_table(rows[0], folder / "d.parquet")
    for number, (name, kind) in enumerate([("e.arrow", pa.ipc.new_file), ("f.feather", pa.ipc.new_stream)]):
        with kind(folder / "deep" / name, SCHEMA) as writer:
            writer.write_table(rows[1 + number])
    (folder / "deep" / "g.json").write_text('{"item": "x", "id": 8}\n')
    for name in ("_SUCCESS", ".hidden.csv", "_temporary/part.csv"):
        (folder / name).write_text("no data")
    return folder


def ids(table: Table) -> list[int]:
    return [int(row["id"]) for row in table.scan().to_arrow().sort_by("id").to_pylist()]


def test_a_folder_of_all_formats_is_a_commit_for_each_file(insert: Insert, log: Table, folder: Path) -> None:
    code, out, err = insert(folder)
    assert (code, out) == (0, "Appended 8 rows of 7 files: shop.log is at snapshot 7.\n")
    assert "a commit for each of 7 files" in err
    assert ids(log) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_paths_are_files_folders_and_globs_each_file_once(insert: Insert, log: Table, folder: Path) -> None:
    code, out, _ = insert(folder / "*.csv*", folder / "a.csv", f"{folder}/**/*.json", folder / "deep", "-o", "json")
    assert code == 0
    assert {**json.loads(out), "job": ""} == {
        "table": "shop.log",
        "rows": 6,
        "snapshot_id": 5,
        "already_applied": False,
        "files": 5,
        "files_before": 0,
        "job": "",
    }
    assert ids(log) == [1, 2, 3, 6, 7, 8]


def test_one_commit_takes_all_files_or_none(insert: Insert, log: Table, folder: Path) -> None:
    bad = folder / "z.csv"
    bad.write_text("id,item\nx,y\n")
    code, _, err = insert(folder, "--one-commit")
    assert (code, err) == (
        2,
        f"Error: {bad}, line 2: column 'id' has 'x', but needs a whole number (BIGINT).\n"
        "Nothing was written: the 8 files are one commit.\n",
    )
    assert ids(log) == []
    bad.unlink()
    assert insert(folder, "--one-commit")[1] == "Appended 8 rows of 7 files: shop.log is at snapshot 1.\n"
    code, out, _ = insert(folder / "a.csv", folder / "c.jsonl", "--mode", "overwrite")
    assert (code, out) == (0, "Replaced all rows of the table by 3 rows of 2 files: shop.log is at snapshot 2.\n")
    assert ids(log) == [1, 2, 4]
    assert insert(folder, "--writer", "me", "--identifier", "3")[0] == 0
    assert insert(folder, "--writer", "me", "--identifier", "3")[1].startswith("This commit had been applied before")
    assert len(ids(log)) == 11


def test_a_job_goes_on_after_a_bad_file(insert: Insert, log: Table, folder: Path) -> None:
    bad = folder / "c.jsonl"
    good = bad.read_text()
    bad.write_text(good + '{"id": "five", "item": null}\n')
    code, _, err = insert(folder, "--job", "nightly")
    assert code == 2
    assert f"{bad}, line 2: column 'id' has 'five', but needs a whole number (BIGINT)." in err
    assert "2 of 7 files are in shop.log; this one is not, nor are the 4 behind it. Go on with --job nightly" in err
    assert ids(log) == [1, 2, 3]
    bad.write_text(good)
    code, out, _ = insert(folder, "--job", "nightly")
    assert (code, out) == (
        0,
        "Appended 5 rows of 5 files: shop.log is at snapshot 7. 2 files had been written before.\n",
    )
    assert ids(log) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert insert(folder, "--job", "nightly")[1] == "Job nightly had written all 7 files before; nothing was changed.\n"
    # Without its name, or under another one, it is another job, and an append table takes the rows again.
    assert insert(folder / "a.csv", "--job", "other")[0] == 0
    assert insert(folder / "a.csv")[0] == 0
    assert ids(log) == sorted([1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 1, 2])


def test_two_runs_of_a_job_at_once_write_each_file_once(
    catalog: Catalog, insert: Insert, log: Table, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_have_looked = threading.Barrier(2)
    look = insert_files.FileInsert._find_done

    def look_together(self: insert_files.FileInsert, *arguments: object) -> frozenset[str]:
        found = look(self, *arguments)  # type: ignore[arg-type]
        both_have_looked.wait(20)
        return found

    monkeypatch.setattr(insert_files.FileInsert, "_find_done", look_together)
    outcomes: list[int] = []

    def one_run() -> None:
        invocation = Invocation(open_catalog=lambda _: catalog, make_printer=lambda o: Printer(o, io.StringIO()))
        invocation.close = lambda: None  # type: ignore[method-assign]
        outcomes.append(run(["insert", "shop.log", str(folder), "--job", "twice"], invocation))

    runs = [threading.Thread(target=one_run) for _ in range(2)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert outcomes == [0, 0]
    assert ids(log) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_changed_and_renamed_files(insert: Insert, log: Table, folder: Path) -> None:
    assert insert(folder, "--job", "j")[0] == 0
    changed = folder / "a.csv"
    changed.write_text("id,item\n1,tea\n2,cup\n")
    code, _, err = insert(folder, "--job", "j")
    assert (code, "a.csv has changed since job j wrote it to shop.log: it had 17 bytes, now it has 20" in err) == (
        2,
        True,
    )
    assert len(ids(log)) == 8
    # A touch alone is a change as well: nobody knows what it stands for.
    stamped = folder / "c.jsonl"
    os.utime(stamped, ns=(1, 1))
    assert insert(stamped, "--job", "j")[0] == 2
    # A new name is a new file.
    (folder / "d.parquet").rename(folder / "renamed.parquet")
    assert insert(folder / "renamed.parquet", "--job", "j")[0] == 0
    assert ids(log).count(5) == 2


def test_a_file_that_changed_while_another_run_wrote_it_is_reported(
    insert: Insert, log: Table, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit answers that it was applied before, and what was applied are other rows."""
    changed = folder / "a.csv"
    assert insert(changed, "--job", "j")[0] == 0
    changed.write_text("id,item\n1,tea\n2,cup\n")
    monkeypatch.setattr(insert_files.FileInsert, "_find_done", lambda *_: frozenset())
    code, _, err = insert(changed, "--job", "j")
    assert (code, "a.csv has changed since job j wrote it" in err) == (2, True)


def test_a_file_that_grows_while_it_is_read_is_not_written(
    insert: Insert, log: Table, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = folder / "a.csv"
    check = insert_files.FileInsert._check_still

    def grow(self: insert_files.FileInsert, source: SourceFile) -> None:
        with growing.open("a") as file:
            file.write("9,late\n")
        check(self, source)

    monkeypatch.setattr(insert_files.FileInsert, "_check_still", grow)
    code, _, err = insert(growing)
    assert (code, "a.csv has changed while it was read, so its rows were not written" in err) == (2, True)
    assert ids(log) == []


def test_errors_name_file_row_group_and_option(insert: Insert, log: Table, folder: Path) -> None:
    bad = folder / "bad.parquet"
    rows = pa.table({"id": [1, 2, 3, None], "item": ["a", "b", "c", "d"]})
    pq.write_table(rows, bad, row_group_size=2)
    code, _, err = insert(bad)
    assert (code, err.startswith(f"Error: {bad}, row group 2, row 4: Column 'id' has None: ")) == (2, True), err
    pq.write_table(pa.table({"id": [1]}), folder / "few.parquet")
    (folder / "few.csv").write_text("id\n1\n")
    (folder / "few.jsonl").write_text('{"id": 1}\n')
    for few in sorted(folder.glob("few.*")):
        code, _, err = insert(few)
        assert (code, f"{few}" in err, "add --fill-missing" in err, "fill_missing" in err) == (2, True, True, False), (
            err
        )
        assert insert(few, "--fill-missing")[0] == 0
    assert ids(log) == [1, 1, 1]


def test_errors_name_the_standard_input(insert: Insert, log: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"id": null, "item": "a"}\n')))
    code, _, err = insert("-", "--format", "json")
    assert (code, err.startswith("Error: The standard input, row 1: Column 'id' has None: ")) == (2, True), err


def test_what_is_no_data_is_refused_by_its_name(insert: Insert, log: Table, folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text("no data")
    code, _, err = insert(folder)
    assert (code, f"{folder}/notes.txt does not tell its format" in err) == (2, True)
    assert ids(log) == []
    (tmp_path / "empty").mkdir()
    assert insert(tmp_path / "empty")[0] == 3
    code, _, err = insert(f"{folder}/*.orc")
    assert (code, f"No file matches {folder}/*.orc." in err) == (3, True)
    code, _, err = insert(folder / "a.csv", "-", "--format", "csv")
    assert (code, "read alone" in err) == (2, True)
    for options in (("--one-commit",), ("--mode", "overwrite"), ("--if-snapshot", "0")):
        code, _, err = insert(folder / "a.csv", "--job", "j", *options)
        assert (code, "--job goes on file by file" in err) == (2, True)
    # The second is what is copied out of a sentence: as a job of its own it would write all files again.
    for name in ("a/b", "j."):
        code, _, err = insert(folder / "a.csv", "--job", name)
        assert (code, f"--job '{name}' is no name" in err) == (2, True)
    code, _, err = insert("s3://bucket/orders.csv")
    assert (code, "FROM read_csv('s3://bucket/orders.csv')" in err) == (2, True)
    assert insert(folder / "a.csv", "--job", "j")[0] == 0
    code, _, err = insert(folder / "a.csv", "--job", "j", "--mode", "write")
    assert (code, "by --mode append, and now the mode is write" in err) == (2, True)


def test_an_interrupt_says_how_to_go_on(
    insert: Insert, log: Table, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = insert_files.FileInsert._insert_one
    left = [2]

    def interrupted(self: insert_files.FileInsert, *arguments: object) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        one(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(insert_files.FileInsert, "_insert_one", interrupted)
    code, _, err = insert(folder, "--job", "j")
    assert code == 130
    assert "Interrupted: 2 of 7 files are in shop.log" in err
    assert "Go on by the same command with --job j." in err
    monkeypatch.undo()
    assert insert(folder, "--job", "j")[0] == 0
    assert ids(log) == [1, 2, 3, 4, 5, 6, 7, 8]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("at_terminal", [True, False])
def test_progress_is_shown_at_a_terminal_only(
    catalog: Catalog, log: Table, folder: Path, monkeypatch: pytest.MonkeyPatch, at_terminal: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(tracking, "DELAY_S", 0)
    err = Terminal() if at_terminal else io.StringIO()
    invocation = Invocation(open_catalog=lambda _: catalog, make_printer=lambda o: Printer(o, io.StringIO(), err))
    invocation.close = lambda: None  # type: ignore[method-assign]
    one = insert_files.FileInsert._insert_one

    def slowly(self: insert_files.FileInsert, *arguments: object) -> None:
        one(self, *arguments)  # type: ignore[arg-type]
        time.sleep(0.05)

    monkeypatch.setattr(insert_files.FileInsert, "_insert_one", slowly)
    assert run(["insert", "shop.log", str(folder)], invocation) == 0
    total = sum(path.stat().st_size for path in folder.rglob("[a-g].*"))
    shown = err.getvalue()
    assert ("/7" in shown, "rows/s" in shown, f"of {format_bytes(total)}" in shown) == (at_terminal,) * 3


def test_a_delete_in_json_needs_its_sequence_also_with_fill_missing(
    catalog: Catalog, insert: Insert, tmp_path: Path
) -> None:
    catalog.drop_table("shop.log")
    schema = pa.schema([*SCHEMA, ("seq", pa.int64())])
    log = catalog.create_table("shop.log", schema, primary_key=["id"], options={"sequence.field": "seq"})
    log.upsert(pa.table({"id": [1, 2], "item": ["a", "b"], "seq": [5, 5]}))
    lines = tmp_path / "lines.jsonl"
    fill = ("--mode", "write", "--fill-missing")
    lines.write_text('{"id": 2, "_row_kind": "+I", "seq": 6}\n{"id": 1, "_row_kind": "-D"}\n')
    code, _, err = insert(lines, *fill)
    assert (code, f"{lines}, line 2: it is a delete that leaves out seq" in err) == (2, True)
    assert ids(log) == [1, 2]
    lines.write_text('{"id": 2, "_row_kind": "+I", "seq": 6}\n{"id": 1, "_row_kind": "-D", "seq": 6}\n')
    assert insert(lines, *fill)[0] == 0
    assert ids(log) == [2]
