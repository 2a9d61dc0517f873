"""Which batches the driver program reads itself, and what is left of one that turns out to be large."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.records.text_options import TextOptions
from lakelog.spark.batch.given_rows import MAX_ROWS
from lakelog.spark.task_errors import errors_to_driver
from writer import few_rows
from writer.few_rows import read_few_rows
from writer.files.batch_log import BatchFiles, BatchLog
from writer.files.listing import FoundFile
from writer.files.source import FilesSource
from writer.files.tasks import TakenFile
from writer.pipeline.spec import FileSource, Format, Mode
from writer.records.coercion import Coercion
from writer.records.dead_letters import count_letters
from writer.records.tasks import ReadTask, file_reader
from writer.source import BatchTasks

SCHEMA = pa.schema([pa.field("n", pa.int64())])


class Input:
    """Batches of a size, and whether they were read to their end or closed before."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.asked: list[int] = []
        self.given = 0
        self.was_closed = False

    def tasks(self, *, may_be_few: bool = True) -> BatchTasks:
        return BatchTasks(2, self.read, may_be_few, None)

    def read(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        self.asked = [number for batch in batches for number in batch.column(0).to_pylist()]
        try:
            for size in self.sizes:
                self.given += 1
                yield pa.record_batch([pa.array(range(size), pa.int64())], schema=SCHEMA)
        finally:
            self.was_closed = True


def test_reads_the_input_of_all_tasks_in_order() -> None:
    given = Input(3, 2)
    found = read_few_rows(given.tasks(), SCHEMA)
    assert found is not None
    assert found.column("n").to_pylist() == [0, 1, 2, 0, 1]
    assert given.asked == [0, 1]


def test_nothing_is_a_table_without_rows() -> None:
    found = read_few_rows(Input().tasks(), SCHEMA)
    assert found is not None
    assert (found.num_rows, found.schema) == (0, SCHEMA)


def test_many_rows_are_for_tasks_and_reading_stops() -> None:
    """Closed, so that what it has written beside its rows is taken back."""
    given = Input(MAX_ROWS, 1, 1)
    assert read_few_rows(given.tasks(), SCHEMA) is None
    assert (given.given, given.was_closed) == (2, True)
    assert read_few_rows(Input(MAX_ROWS).tasks(), SCHEMA) is not None


@pytest.mark.parametrize(("rows", "left"), [((MAX_ROWS + 1, 1), []), ((1, MAX_ROWS), ["p-0000000000-000000.jsonl"])])
def test_letters_of_files_that_were_not_read_to_their_end_are_taken_back(
    tmp_path: Path, rows: tuple[int, int], left: list[str]
) -> None:
    """Reading stops in the first of two files, or in the second; those of the first one are complete then."""
    letters = tmp_path / "letters"
    coercion = Coercion(
        TableSchema(0, assign_field_ids(SCHEMA), ()), Mode.APPEND, {}, None, None, False, True, TextOptions()
    )
    files = []
    for number, count in enumerate(rows):
        path = tmp_path / f"{number}.csv"
        path.write_text("n\nbad\n" + "1\n" * count)
        status = path.stat()
        files.append(TakenFile(0, number, path.name, status.st_size, status.st_mtime_ns // 1000))
    read = file_reader(ReadTask("p", 0, tmp_path, Format.CSV, coercion, letters), [[file] for file in files])
    assert read_few_rows(BatchTasks(2, read, True, None), SCHEMA) is None
    assert [path.name for path in letters.iterdir()] == left
    # The tasks that read the batch then.
    for _ in read(iter([pa.record_batch({"number": pa.array([0, 1], pa.int64())})])):
        pass
    assert sorted(path.name for path in letters.iterdir()) == [f"p-0000000000-00000{number}.jsonl" for number in (0, 1)]
    assert count_letters(letters, "p", 0) == 2


def test_large_rows_are_for_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_rows, "_MAX_BYTES", 80)
    assert read_few_rows(Input(10).tasks(), SCHEMA) is not None
    assert read_few_rows(Input(11).tasks(), SCHEMA) is None


def test_a_large_input_is_not_looked_at() -> None:
    given = Input(1)
    assert read_few_rows(given.tasks(may_be_few=False), SCHEMA) is None
    assert given.given == 0


def test_an_error_of_the_input_is_raised_as_it_is() -> None:
    def read(_batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        with errors_to_driver():
            raise InvalidArgument("line 3 is bad", reason="BAD_RECORD")
        yield

    with pytest.raises(InvalidArgument, match="line 3 is bad") as caught:
        read_few_rows(BatchTasks(1, read, True, None), SCHEMA)
    assert caught.value.reason == "BAD_RECORD"


@pytest.mark.parametrize(("size_bytes", "may_be_few"), [(1 << 19, True), ((1 << 19) + 1, False)])
def test_small_files_can_hold_few_rows(tmp_path: Path, size_bytes: int, may_be_few: bool) -> None:
    log = BatchLog(tmp_path)
    log.plan(BatchFiles(0, (FoundFile("a", size_bytes, 0), FoundFile("b", 1 << 19, 0)), 0, 2))
    no_task: Any = None
    source = FilesSource(FileSource(tmp_path, Format.CSV), log, lambda _: no_task)
    assert source.split(0, 4).may_be_few is may_be_few
