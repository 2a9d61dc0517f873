"""What a full compaction tells of the one before (semantics 3.6): the difference of what was written."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lakelog.errors import Unavailable
from lakelog.format.types.rowkind import RowKind
from lakelog.options.values import TableOptions
from lakelog.storage.merging.aligned_runs import RunPart, read_run
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.own_columns import KIND_FIELD
from lakelog.storage.rewrite.full import rewrite_fully
from lakelog.storage.rewrite.runs import RunRewrite
from lakelog.testing.faulty_store import FaultyStore
from tests.support.tables.rewriting import RETENTION_MS, SCHEMA, Bucket

Change = tuple[str, int, int | None, int | None]


class FullBucket(Bucket):
    """A bucket that is compacted as a whole from time to time."""

    def __init__(self, options: dict[str, str], **more: str) -> None:
        super().__init__(options)
        # The producer is declared where its jobs are.
        self.more_options = TableOptions({**self.options.given(), **more})
        self.before: set[str] = set()

    def compact(self) -> list[Change]:
        inputs = tuple(self.files)
        self._file_id += 1
        work = RunRewrite("full", inputs, (), self.now_ms, 5)
        done = rewrite_fully(
            self.store, SCHEMA, self.more_options, f"e{self._file_id:031x}", work, self.before, memory_bytes=1
        )
        self.end_rewrite(inputs, done.files)
        self.before = {file.path for file in done.files}
        changes: list[Change] = []
        for number, file in enumerate(done.changelog_files):
            fields = [*SCHEMA.arrow, KIND_FIELD]
            rows = read_run(DataFiles(self.store), RunPart(self._place(file, 1, number, 0), fields))
            changes += [(RowKind(row["_row_kind"]).text, row["k"], row["seq"], row["v"]) for row in rows.to_pylist()]
        return changes

    def rows(self) -> dict[int, tuple[int | None, int]]:
        return {k: (each.seq, each.value) for k, each in self._model.items() if each.kind in ("+I", "+U")}


def test_the_vector_of_the_semantics() -> None:
    bucket = FullBucket({})
    bucket.commit([(10, 0, "+I"), (20, 0, "+I"), (40, 0, "+I")], 0)
    bucket.commit([(10, 0, "+I"), (30, 0, "+I"), (10, 0, "+I"), (40, 0, "-D")], 0)
    assert bucket.compact() == [("+I", 10, 0, 5), ("+I", 20, 0, 1), ("+I", 30, 0, 4)]
    assert bucket.compact() == []
    bucket.commit([(20, 0, "-D"), (30, 1, "+U"), (50, 0, "+I"), (60, 0, "-D")], 0)
    assert bucket.compact() == [("-D", 20, 0, 1), ("-U", 30, 0, 4), ("+U", 30, 1, 8), ("+I", 50, 0, 9)]


def test_what_is_written_again_is_an_update_unless_left_out() -> None:
    for more, changes in (
        ({}, [("-U", 1, 5, 0), ("+U", 1, 5, 0)]),
        ({"changelog-producer.row-deduplicate": "true", "changelog-producer": "lookup"}, []),
    ):
        bucket = FullBucket({"sequence.field": "seq"}, **more)
        bucket.commit([(1, 5, "+I"), (2, 5, "+I")], 0)
        bucket.compact()
        bucket.commit([(1, 3, "+I")], 0)
        assert bucket.compact() == changes


@pytest.mark.parametrize("options", [{}, {"sequence.field": "seq"}])
@pytest.mark.parametrize("seed", range(15))
def test_changes_lead_from_one_full_compaction_to_the_next(options: dict[str, str], seed: int) -> None:
    random = Random(seed)
    bucket = FullBucket(options)
    shown: dict[int, tuple[int | None, int | None]] = {}
    for _ in range(6):
        touched: set[int] = set()
        for _ in range(random.randrange(4)):
            records: list[Any] = [
                (random.randrange(8), random.randrange(5), random.choice(("+I", "+U", "-D")))
                for _ in range(random.randrange(1, 5))
            ]
            bucket.commit(records, random.randrange(RETENTION_MS))
            touched |= {key for key, _, _ in records}
            above = [place for place, file in enumerate(bucket.files) if file.path not in bucket.before]
            if len(above) > 1 and random.random() < 0.5:
                bucket.end_rewrite(*bucket.begin_rewrite(above[0], random.randrange(2, 4), 1))
        if not bucket.files:
            continue
        for kind, key, seq, value in bucket.compact():
            assert key in touched
            if kind in ("-U", "-D"):
                assert shown.pop(key) == (seq, value)
            else:
                assert key not in shown
                shown[key] = (seq, value)
        assert shown == bucket.rows()


def test_a_failure_leaves_no_file_behind() -> None:
    bucket = FullBucket({})
    bucket.commit([(key, 0, "+I") for key in range(100)], 0)
    for operation, number in (("create", 2), ("commit", 1), ("commit", 2)):
        store = FaultyStore(bucket.store)
        store.fail_at(operation, number)  # type: ignore[arg-type]
        work = RunRewrite("full", tuple(bucket.files), (), bucket.now_ms, 5)
        with pytest.raises(Unavailable):
            rewrite_fully(store, SCHEMA, bucket.options, "e" * 32, work, ())
        assert [each.path for each in bucket.store.list_objects() if "e" * 32 in each.path] == []
