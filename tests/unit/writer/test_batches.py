"""Which files each batch takes, whatever happens in between; and whether a checkpoint may be used."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog.errors import DataCorrupted, InvalidArgument, NotFound
from lakelog.format.commit.request import WriterProgress
from writer import batch
from writer.checkpoint import CHECKPOINT_PROPERTY, Checkpoint, Totals, open_checkpoint
from writer.files import batch_log
from writer.files.batch_log import BatchFiles, BatchLog
from writer.files.listing import FoundFile, list_files
from writer.files.source import FilesSource
from writer.files.tasks import TakenFile, split_files
from writer.pipeline.spec import BadRecords, FileSource, Format, Mode, Order, Pipeline


def make_source(folder: Path, **changes: object) -> FileSource:
    folder.mkdir(exist_ok=True)
    return FileSource(**{"path": folder, "format": Format.CSV, "max_files_per_batch": 2, **changes})  # type: ignore[arg-type]


def make_pipeline(folder: Path, name: str = "p", source: str = "in") -> Pipeline:
    return Pipeline(
        folder / "p.yaml", name, "s.t", None, make_source(folder / source), Mode.UPSERT, None, 1.0,
        folder / "state", BadRecords.STOP, None,
    )  # fmt: skip


class Stream:
    """The source as the service uses it: asked whether a batch is planned, then for its files."""

    def __init__(self, source: FileSource, log: Path) -> None:
        no_task: Any = None
        self.log = BatchLog(log)
        self.source = FilesSource(source, self.log, lambda _: no_task)

    def next(self, start: int) -> tuple[int, list[str]]:
        if not self.source.plan(start):
            return start, []
        return start + 1, [file.path for group in self.source.group(start, 4) for file in group]


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)


def test_listing(tmp_path: Path) -> None:
    touch(tmp_path / "in", "b.csv", "a.csv", ".hidden.csv", "_x.csv", "c.csv.tmp", "d.txt", "sub/e.csv", "_sub/f.csv")
    source = make_source(tmp_path / "in", pattern="*.csv*")
    assert [file.path for file in list_files(source)] == ["a.csv", "b.csv"]
    source = make_source(tmp_path / "in", pattern="*.csv", recursive=True, order=Order.MODIFIED)
    for place, name in enumerate(["sub/e.csv", "b.csv", "a.csv"]):
        os.utime(tmp_path / "in" / name, (place, place))
    assert [file.path for file in list_files(source)] == ["sub/e.csv", "b.csv", "a.csv"]
    with pytest.raises(NotFound, match=r"nowhere does not exist.*source\.path"):
        list_files(FileSource(tmp_path / "nowhere", Format.CSV))


def test_a_name_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xff.csv")).touch()
    with pytest.raises(InvalidArgument, match=r"name is not UTF-8: .*a\\xff.csv"):
        list_files(FileSource(tmp_path, Format.CSV))
    assert list_files(FileSource(tmp_path, Format.CSV, pattern="[a-z].csv")) == []


def test_each_file_is_taken_once(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    touch(folder, "b", "d", "c")
    stream = Stream(make_source(folder), tmp_path / "log")
    assert stream.next(0) == (1, ["b", "c"])
    # Older than all others, and before them by name: taken all the same.
    touch(folder, "a")
    os.utime(folder / "a", (0, 0))
    assert stream.next(1) == (2, ["a", "d"])
    assert stream.next(2) == (2, [])
    again = Stream(make_source(folder), tmp_path / "log")
    assert again.next(2) == (2, [])
    touch(folder, "e")
    assert again.next(2) == (3, ["e"])


def test_a_batch_that_was_planned_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    touch(folder, "b")
    assert Stream(make_source(folder), tmp_path / "log").next(0) == (1, ["b"])
    touch(folder, "a")
    # After a crash Spark may not know that it was planned.
    assert Stream(make_source(folder), tmp_path / "log").next(0) == (1, ["b"])


def test_of_two_planners_both_see_the_first_ones_batch(tmp_path: Path) -> None:
    log = BatchLog(tmp_path)
    mine = BatchFiles(0, (FoundFile("a", 1, 1),), 0, 1)
    assert log.plan(mine) == mine
    assert log.plan(BatchFiles(0, (FoundFile("b", 1, 1),), 0, 1)) == mine


def test_what_is_there_now_is_all_there_is(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    touch(folder, "a", "b", "c")
    stream = Stream(make_source(folder), tmp_path / "log")
    stream.source.freeze()
    touch(folder, "d")
    assert stream.next(0) == (1, ["a", "b"])
    assert stream.next(1) == (2, ["c"])
    assert stream.next(2) == (2, [])


def test_packing_forgets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_log, "_PACK_AFTER", 3)
    monkeypatch.setattr(batch_log, "_RETAINED", 2)
    folder = tmp_path / "in"
    touch(folder, *(f"{number:02d}" for number in range(20)))
    stream = Stream(make_source(folder, max_files_per_batch=1), tmp_path / "log")
    for number in range(20):
        assert stream.next(number) == (number + 1, [f"{number:02d}"])
        stream.source.forget(number + 1)
    assert len(list((tmp_path / "log").glob("*.json"))) < 8
    log = BatchLog(tmp_path / "log")
    assert sorted(log.load_taken(19)) == [f"{number:02d}" for number in range(20)]
    assert Stream(make_source(folder), tmp_path / "log").next(20) == (20, [])


def test_lost_logs_are_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    touch(folder, "a", "b", "c")
    stream = Stream(make_source(folder), tmp_path / "log")
    stream.next(0)
    (tmp_path / "log" / "0000000000.json").unlink()
    with pytest.raises(DataCorrupted, match=r"0000000000\.json is missing.*Restore"):
        Stream(make_source(folder), tmp_path / "log").next(1)
    (tmp_path / "log" / "0000000000.json").write_text("{")
    with pytest.raises(DataCorrupted, match="cannot be understood"):
        Stream(make_source(folder), tmp_path / "log").next(1)


def test_files_that_changed_after_they_were_read_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    touch(folder, "a", "b")
    stream = Stream(make_source(folder), tmp_path / "log")
    stream.next(0)
    (folder / "a").write_text("longer than before")
    stream.next(1)
    assert BatchLog(tmp_path / "log").read_changed() == ("a",)


def test_sharing_keeps_the_order() -> None:
    files = [TakenFile(0, number, str(number), size, 0) for number, size in enumerate([9_000_000, 1, 1, 9_000_000, 1])]
    groups = split_files(files, 2)
    assert [file for group in groups for file in group] == files
    assert [len(group) for group in groups] == [3, 2]
    assert split_files([], 3) == []
    assert len(split_files(files * 100, 4)) == 4


def progress(last: int | None, checkpoint: str = "") -> WriterProgress:
    return WriterProgress(last, None, {CHECKPOINT_PROPERTY: checkpoint} if checkpoint else {}, 0)


def spark_says(checkpoint: Checkpoint, begun: int, done: int) -> None:
    for kind, last in (("offsets", begun), ("commits", done)):
        folder = checkpoint.spark_folder / kind
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(last + 1):
            (folder / str(number)).touch()
            (folder / f".{number}.crc").touch()


@pytest.mark.parametrize(
    ("begun", "done", "last"), [(-1, -1, None), (0, -1, None), (0, -1, 0), (0, 0, 0), (5, 4, 4), (5, 4, 5), (5, 5, 5)]
)
def test_checkpoints_that_fit(tmp_path: Path, begun: int, done: int, last: int | None) -> None:
    pipeline = make_pipeline(tmp_path)
    checkpoint = open_checkpoint(pipeline, "uuid")
    spark_says(checkpoint, begun, done)
    open_checkpoint(pipeline, "uuid").check_progress(
        pipeline, progress(last, "" if last is None else checkpoint.identity)
    )


@pytest.mark.parametrize(
    ("begun", "done", "last", "part"),
    [
        (-1, -1, 5, "is new"),
        (3, 2, 5, "batches up to 3 only"),
        (5, 5, 4, "batch 5 of pipeline 'p' was committed, but table s.t knows batches up to 4"),
        (5, 5, None, "knows none"),
    ],
)
def test_checkpoints_that_do_not_fit(tmp_path: Path, begun: int, done: int, last: int | None, part: str) -> None:
    pipeline = make_pipeline(tmp_path)
    checkpoint = open_checkpoint(pipeline, "uuid")
    spark_says(checkpoint, begun, done)
    with pytest.raises(InvalidArgument, match=part) as caught:
        checkpoint.check_progress(pipeline, progress(last, "" if last is None else checkpoint.identity))
    assert caught.value.reason == "CHECKPOINT_MISFIT"
    assert str(tmp_path / "state") in caught.value.message
    assert "Put the right checkpoint back" in caught.value.message


class Plans:
    """A source that still has the plans of some batches."""

    def __init__(self, first: int) -> None:
        self._first = first

    def read_batch(self, batch_id: int) -> object | None:
        return "planned" if batch_id >= self._first else None


@pytest.mark.parametrize("last", [4, 2, 0, None])
def test_a_checkpoint_ahead_of_a_restored_table_is_set_back(tmp_path: Path, last: int | None) -> None:
    pipeline = make_pipeline(tmp_path)
    checkpoint = open_checkpoint(pipeline, "uuid")
    spark_says(checkpoint, 6, 5)
    known = progress(last, "" if last is None else checkpoint.identity)
    with pytest.raises(InvalidArgument, match="run the pipeline once with --after-restore"):
        checkpoint.check_progress(pipeline, known)
    first = -1 if last is None else last
    assert checkpoint.set_back(known, Plans(0)) == range(first + 1, 6)
    assert (checkpoint.last_begun(), checkpoint.last_done()) == (first, first)
    assert len(list(checkpoint.spark_folder.rglob("*.crc"))) == 2 * (first + 1)
    checkpoint.check_progress(pipeline, known)
    assert not checkpoint.set_back(known, Plans(0)), "nothing is lost any more"


def test_a_checkpoint_that_fits_or_is_another_one_is_not_set_back(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(make_pipeline(tmp_path), "uuid")
    spark_says(checkpoint, 5, 5)
    for known in (progress(5, checkpoint.identity), progress(6, checkpoint.identity), progress(2, "another")):
        assert not checkpoint.set_back(known, Plans(0))
    assert (checkpoint.last_begun(), checkpoint.last_done()) == (5, 5)


@pytest.mark.parametrize(("first_plan", "first_offset"), [(4, 0), (0, 4)], ids=["plans", "offsets"])
def test_a_checkpoint_without_old_records_is_left_as_it_is(tmp_path: Path, first_plan: int, first_offset: int) -> None:
    checkpoint = open_checkpoint(make_pipeline(tmp_path), "uuid")
    spark_says(checkpoint, 5, 5)
    for number in range(first_offset):
        (checkpoint.spark_folder / "offsets" / str(number)).unlink()
    with pytest.raises(InvalidArgument, match=r"lost the batches from 3 to 5, .* records of batch [23], so it cannot"):
        checkpoint.set_back(progress(2, checkpoint.identity), Plans(first_plan))
    assert (checkpoint.last_begun(), checkpoint.last_done()) == (5, 5)


@pytest.mark.parametrize("removed", range(6))
def test_a_set_back_that_was_killed_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    """After each file: the pipeline does not start, or Spark's last offset is the one after the table's batch."""
    pipeline = make_pipeline(tmp_path)
    checkpoint = open_checkpoint(pipeline, "uuid")
    spark_says(checkpoint, 5, 5)
    known, unlink, left = progress(2, checkpoint.identity), Path.unlink, [removed]

    def unlink_some(path: Path, missing_ok: bool = False) -> None:
        if path.name.isdigit():
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink_some)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.set_back(known, Plans(0))
    with pytest.raises(InvalidArgument, match="--after-restore"):
        checkpoint.check_progress(pipeline, known)
    checkpoint.set_back(known, Plans(0))
    checkpoint.check_progress(pipeline, known)
    assert (checkpoint.last_begun(), checkpoint.last_done()) == (2, 2)


def test_a_checkpoint_recreated_is_noticed_even_with_the_same_numbers(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path)
    checkpoint = open_checkpoint(pipeline, "uuid")
    spark_says(checkpoint, 2, 2)
    with pytest.raises(InvalidArgument, match="is not the one they were made with"):
        checkpoint.check_progress(pipeline, progress(2, "another"))


def test_a_checkpoint_belongs_to_one_pipeline_table_and_source(tmp_path: Path) -> None:
    open_checkpoint(make_pipeline(tmp_path), "uuid")
    for pipeline, uuid, part in (
        (make_pipeline(tmp_path, name="q"), "uuid", "belongs to the pipeline 'p'"),
        (make_pipeline(tmp_path), "other", "belongs to the table 'uuid'"),
        (make_pipeline(tmp_path, source="in2"), "uuid", "belongs to the source '"),
    ):
        with pytest.raises(InvalidArgument, match=part):
            open_checkpoint(pipeline, uuid)
    (tmp_path / "state" / "pipeline.json").write_text("{}")
    with pytest.raises(InvalidArgument, match="cannot be understood"):
        open_checkpoint(make_pipeline(tmp_path), "uuid")
    (tmp_path / "state" / "pipeline.json").unlink()
    (tmp_path / "state" / "files").mkdir()
    with pytest.raises(InvalidArgument, match=r"lost its file pipeline\.json"):
        open_checkpoint(make_pipeline(tmp_path), "uuid")


def test_totals(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, "x")
    assert checkpoint.read_totals() == Totals(-1, 0, 0)
    checkpoint.write_totals(Totals(3, 40, 5))
    assert checkpoint.read_totals() == Totals(3, 40, 5)
    assert json.loads((tmp_path / "totals.json").read_text())["rows"] == 40
    (tmp_path / "totals.json").write_text("{")
    with pytest.raises(InvalidArgument, match=r"totals\.json cannot be understood") as caught:
        checkpoint.read_totals()
    assert caught.value.reason == "CHECKPOINT_MISFIT"


def test_batches_are_noted_as_the_logs_of_a_streaming_query(tmp_path: Path) -> None:
    """The version before ran one; its Spark refuses a log of another form."""
    checkpoint = Checkpoint(tmp_path, "x")
    checkpoint.begin(7)
    checkpoint.end(7)
    head, metadata, offset = (checkpoint.spark_folder / "offsets/7").read_text().split("\n")
    assert (head, json.loads(offset)) == ("v1", {"batches": 8})
    assert {"batchWatermarkMs", "batchTimestampMs"} <= json.loads(metadata).keys()
    head, metadata = (checkpoint.spark_folder / "commits/7").read_text().split("\n")
    assert (head, json.loads(metadata)) == ("v1", {"nextBatchWatermarkMs": 0})


class _Lost(Exception):
    pass


def test_a_frozen_instance_leaves_the_dead_letters_of_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[int] = []
    monkeypatch.setattr(batch, "delete_letters", lambda folder, name, batch_id: deleted.append(batch_id))
    pipeline = dataclasses.replace(make_pipeline(tmp_path), dead_letters=tmp_path / "letters")
    checks = iter([None, _Lost()])

    def check() -> None:
        if isinstance(error := next(checks), Exception):
            raise error

    some: Any = SimpleNamespace
    writer = batch.BatchWriter(
        pipeline,
        some(info=some(table_uuid="0" * 32)),
        some(read_batch=lambda batch_id: some(batch_id=batch_id), split=None),
        Checkpoint(tmp_path, "x"),
        some(get_writer_progress=lambda *_: progress(0)),
        some(check=check),
        some(monotonic_s=lambda: 0.0),
    )
    with pytest.raises(_Lost):
        writer.write(some(), 1)
    assert deleted == []
