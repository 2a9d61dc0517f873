"""Changes of rows beside other writers, killed in the middle, and by programs that run at once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog import literal, when_matched, when_not_matched
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import CommitConflict
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.tables.append_compaction import compact_append

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("n", pa.int64()), ("s", pa.string())])


def _make(catalog: Catalog, name: str, rows: int, *, keyed: bool) -> Table:
    catalog.create_database("changed", if_not_exists=True)
    options = {"bucket": "2"} if keyed else {}
    table = catalog.create_table(f"changed.{name}", SCHEMA, primary_key=["k"] if keyed else [], options=options)
    table.append(pa.table({"k": range(rows), "n": [0] * rows, "s": ["x"] * rows}, schema=SCHEMA))
    return table


def _together(*work: Callable[[], object]) -> list[BaseException]:
    failures: list[BaseException] = []

    def do(each: Callable[[], object]) -> None:
        try:
            each()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=do, args=[each]) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


@pytest.mark.parametrize("keyed", [True, False])
def test_increments_at_once_are_all_there(catalog: Catalog, keyed: bool) -> None:
    """Each adds one to some rows, again and again; a lost update would be missing in the sum."""
    table = _make(catalog, f"counters{keyed}", 20, keyed=keyed)
    done: Counter[int] = Counter()
    lock = threading.Lock()

    def count(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(6):
            first = rng.randrange(15)
            try:
                result = table.update({"n": "n + 1"}, f"k >= {first} AND k < {first + 5}")
            except CommitConflict:
                # Fairness is not promised; then nothing of it may be there.
                continue
            assert result.updated_rows == 5
            with lock:
                done.update(range(first, first + 5))

    assert _together(*(lambda seed=seed: count(seed) for seed in range(3))) == []
    assert {row["k"]: row["n"] for row in table.scan().to_arrow().to_pylist()} == {k: done[k] for k in range(20)}


@pytest.mark.parametrize("keyed", [True, False])
def test_merges_at_once_insert_each_row_once(catalog: Catalog, keyed: bool) -> None:
    table = _make(catalog, f"merged{keyed}", 5, keyed=keyed)
    clauses = when_matched("source.n > target.n").update({"n": "source.n"}), when_not_matched().insert_all()

    def merge(number: int) -> None:
        rows = pa.table({"k": range(10), "n": [number] * 10, "s": ["y"] * 10}, schema=SCHEMA)
        table.merge(rows, ["k"], *clauses)

    assert _together(*(lambda number=number: merge(number) for number in (3, 1, 2))) == []
    rows = table.scan(["k", "n"]).to_arrow().sort_by("k").to_pylist()
    assert rows == [{"k": k, "n": 3} for k in range(10)]


def test_an_update_of_an_append_table_beside_appends_and_compactions(catalog: Catalog) -> None:
    table = _make(catalog, "busy", 50, keyed=False)

    def append() -> None:
        for number in range(20):
            table.append(pa.table({"k": [1000 + number], "n": [0], "s": ["new"]}, schema=SCHEMA))
            if number % 5 == 4:
                compact_append(table)

    def change() -> None:
        for number in range(5):
            assert table.update({"n": "n + 1"}, "k < 50").updated_rows == 50, number

    assert _together(append, change) == []
    assert table.count("k < 50 AND n = 5") == 50
    assert table.count() == 70


def test_random_changes_with_other_writers_are_as_in_a_dict(catalog: Catalog) -> None:
    """Keys below 50 belong to the statements, the others to writers that disturb them in the same buckets."""
    table = _make(catalog, "disturbed", 50, keyed=True)
    rng = random.Random(11)
    model = dict.fromkeys(range(50), 0)
    stop = threading.Event()

    def disturb() -> None:
        number = 0
        while not stop.wait(0.3):
            number += 1
            table.upsert(pa.table({"k": [100 + number % 7], "n": [number], "s": ["other"]}, schema=SCHEMA))

    writer = threading.Thread(target=disturb)
    writer.start()
    try:
        for number in range(15):
            first = rng.randrange(40)
            chosen = range(first, first + 10)
            if number % 3 == 0:
                where = f"k BETWEEN {first} AND {first + 9}"
                table.update({"n": "n + :d", "s": literal("u")}, where, params={"d": number})
                model |= {k: model[k] + number for k in chosen if k in model}
            elif number % 3 == 1:
                table.delete_where(f"k BETWEEN {first} AND {first + 4}")
                model = {k: n for k, n in model.items() if not first <= k <= first + 4}
            else:
                rows = pa.table({"k": chosen, "n": [number] * 10, "s": ["m"] * 10}, schema=SCHEMA)
                table.merge(rows, ["k"], when_matched("target.n > 2").delete(), when_not_matched().insert_all())
                gone = {k for k in chosen if model.get(k, 0) > 2}
                new = {k: number for k in chosen if k not in model}
                model = {k: n for k, n in model.items() if k not in gone} | new
            found = table.scan(["k", "n"], "k < 50").to_arrow()
            assert dict(zip(found.column("k").to_pylist(), found.column("n").to_pylist(), strict=True)) == model
    finally:
        stop.set()
        writer.join()


_PROGRAM = """
import os, signal, sys
import pyarrow as pa
import lakelog
from lakelog.writes.attempt import CommitAttempt

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

CommitAttempt.commit = die
table = lakelog.connect(sys.argv[1]).table(sys.argv[2])
table.update({"n": "n + 1"}, writer="w", identifier=1)
"""


@pytest.mark.parametrize("keyed", [True, False])
def test_a_program_that_is_killed_before_its_commit_leaves_nothing(
    stack: EmbeddedStack, tmp_path: Path, keyed: bool
) -> None:
    table = _make(lakelog.connect(stack.target), f"killed{keyed}", 100, keyed=keyed)
    program = tmp_path / "killed.py"
    program.write_text(_PROGRAM)
    done = subprocess.run([sys.executable, str(program), stack.target, table.name], check=False)
    assert done.returncode == -signal.SIGKILL
    assert table.count("n <> 0") == 0
    result = table.update({"n": "n + 1"}, writer="w", identifier=1)
    assert (result.updated_rows, result.already_applied) == (100, False)
    assert table.count("n = 1") == 100
