"""Executors on other machines: folders that they see otherwise than their driver program are found out."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import DataCorrupted, InvalidArgument
from lakelog.records.bad_records import BadRecord
from lakelog.spark.executor_files import FOLDER_NOT_SHARED, check_files_are_here
from reader.streams.sinks import _check_rows, count_rows
from writer.files.tasks import TakenFile
from writer.records.dead_letters import LetterFile, count_letters, delete_letters, letter_name, mark_name, marked_folder
from writer.records.tasks import _check_unchanged


def test_files_that_are_elsewhere_are_not_committed(tmp_path: Path) -> None:
    folder = tmp_path / "a b%"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "1.parquet").touch()
    check_files_are_here("d.t", folder.as_uri() + "/", ["data/1.parquet"])
    with pytest.raises(InvalidArgument, match=r"2 files of table d\.t that are not in .*data/2\.parquet") as refused:
        check_files_are_here("d.t", folder.as_uri() + "/", [f"data/{number}.parquet" for number in (1, 2, 3)])
    assert refused.value.reason == FOLDER_NOT_SHARED
    assert "use S3" in refused.value.message


def test_on_s3_all_machines_see_the_same_files() -> None:
    check_files_are_here("d.t", "s3://lake/t/", ["data/1.parquet"])


LETTER = BadRecord(3, None, "it is bad", b"raw")


def test_letters_that_would_go_to_another_disk_stop_the_batch(tmp_path: Path) -> None:
    driver, executor = tmp_path / "driver", tmp_path / "executor"
    name, mark = letter_name("p", 7, 0), mark_name("p", 7)
    with marked_folder(driver, "p", 7):
        here = LetterFile(driver, name, {}, mark=mark)
        here.write([LETTER])
        here.finish()
        elsewhere = LetterFile(executor, name, {}, mark=mark)
        with pytest.raises(InvalidArgument, match="does not see the dead-letter folder") as refused:
            elsewhere.write([LETTER])
        elsewhere.abort()
    assert refused.value.reason == FOLDER_NOT_SHARED
    assert count_letters(driver, "p", 7) == 1
    assert not executor.exists()
    assert [path.name for path in driver.iterdir()] == [name], "the mark is gone after the batch"


def test_control_without_a_mark_letters_are_lost_in_silence(tmp_path: Path) -> None:
    driver, executor = tmp_path / "driver", tmp_path / "executor"
    with marked_folder(driver, "p", 7):
        elsewhere = LetterFile(executor, letter_name("p", 7, 0), {})
        elsewhere.write([LETTER])
        elsewhere.finish()
    assert count_letters(driver, "p", 7) == 0


def test_the_mark_of_a_killed_driver_goes_with_the_next_try(tmp_path: Path) -> None:
    (tmp_path / mark_name("p", 7)).touch()
    (tmp_path / mark_name("p", 8)).touch()
    delete_letters(tmp_path, "p", 7)
    assert [path.name for path in tmp_path.iterdir()] == [mark_name("p", 8)]


class Rows:
    """As much of a DataFrame as can be counted again."""

    def __init__(self, count: int) -> None:
        self._count = count

    def count(self) -> int:
        return self._count


def check(folder: Path, counted: int, again: int) -> None:
    stream: Any = SimpleNamespace(name="s", sink=SimpleNamespace(path=folder))
    rows: Any = Rows(again)
    observation: Any = SimpleNamespace(get={"rows": counted})
    _check_rows(stream, rows, observation, folder)


def test_a_batch_of_files_that_lacks_rows_is_not_shown(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": range(5)}), tmp_path / "part-0.parquet")
    (tmp_path / "part-1.json").write_text("".join(json.dumps({"k": k}) + "\n" for k in range(3)))
    (tmp_path / "_SUCCESS").touch()
    assert count_rows(tmp_path) == 8
    check(tmp_path, 8, 8)
    with pytest.raises(InvalidArgument, match=r"wrote 9 rows .* of which 8 are there") as refused:
        check(tmp_path, 9, 9)
    assert refused.value.reason == FOLDER_NOT_SHARED
    # A task that ran twice counts twice.
    check(tmp_path, 11, 8)


def test_a_source_that_an_executor_does_not_see_is_no_changed_file(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("1\n")
    status = (folder / "a.csv").stat()
    file = TakenFile(0, 0, "a.csv", status.st_size, status.st_mtime_ns // 1000)
    _check_unchanged(folder, file)
    with pytest.raises(InvalidArgument, match="does not see the source's folder") as refused:
        _check_unchanged(tmp_path / "elsewhere", file)
    assert refused.value.reason == FOLDER_NOT_SHARED
    (folder / "a.csv").unlink()
    with pytest.raises(DataCorrupted, match="cannot be looked at on "):
        _check_unchanged(folder, file)
