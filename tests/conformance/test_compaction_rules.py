"""Section 6: what is compacted when, and that no read, order or writer notices."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from lakelog.format.compaction.picking import pick_due
from lakelog.format.compaction.plan import NoPlan, Rule
from lakelog.format.compaction.runs import SortedRun
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.compaction.small_files import SmallFileState, add_files, plan_small_files
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.tables.attaching import attach_all

TARGET = 256 << 20
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("g", pa.int64()), ("v", pa.int64())])
_names = itertools.count(1)


def make(catalog: Catalog, *, key: Sequence[str] = (), **options: str) -> Table:
    catalog.create_database("compacted", if_not_exists=True)
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return catalog.create_table(f"compacted.t{next(_names)}", SCHEMA, primary_key=key, options=named)


def rows(*values: tuple[int, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in values], SCHEMA)


def work(catalog: Catalog, table: Table) -> None:
    """Has a compactor do what is due at this table."""
    attach_all(catalog.metastore, find_tables=lambda: [table.uuid])


def read(table: Table, **more: object) -> list[str]:
    return sorted(map(str, table.scan(**more).to_arrow().to_pylist()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "levels", "amplification", "picked", "rule"),
    [
        # The sample vectors: trigger 3, size amplification 25 percent.
        ("0:1 0:2 0:3 0:3", 3, 25, 4, Rule.SIZE_AMPLIFICATION),
        ("0:1 1:1 2:1 3:50", 4, 25, 3, Rule.SIZE_RATIO),
        ("0:1 1:2 2:3 3:50", 4, 25, 3, Rule.RUN_COUNT),
        ("0:1 3:50", 4, 25, None, None),
    ],
)
def test_rule_6_1_what_is_picked(
    sizes: str, levels: int, amplification: int, picked: int | None, rule: Rule | None
) -> None:
    runs = [SortedRun(int(level), int(size)) for level, size in (run.split(":") for run in sizes.split())]
    settings = CompactionSettings(
        100, compaction_trigger=3, level_count=levels, max_size_amplification_percent=amplification
    )
    found = pick_due(runs, settings, now_ms=0, last_full_ms=0)
    if isinstance(found, NoPlan):
        assert picked is None
        assert found.reason
    else:
        assert (found.run_count, found.rule) == (picked, rule)


@pytest.mark.parametrize(
    ("count", "size_bytes", "tasks"),
    [(200, 0, [128, 72]), (100, TARGET * 8 // 10, []), (1000, TARGET // 10, [18] * 55 + [10])],
)
def test_rule_6_2_how_small_files_are_packed(count: int, size_bytes: int, tasks: list[int]) -> None:
    files = pa.table(
        {
            "file_id": np.arange(count),
            "partition": pa.array([b""] * count, pa.binary()),
            "size_bytes": np.full(count, size_bytes),
        }
    )
    settings = CompactionSettings(TARGET, min_file_count=3)
    scan = plan_small_files(add_files(SmallFileState(), files, settings), settings)
    assert [len(plan.file_ids) for plan in scan.plans] == tasks


def test_rule_6_2_and_6_5_small_files_become_few_and_no_writer_waits(catalog: Catalog) -> None:
    table = make(catalog)
    for number in range(12):
        table.append(rows((number, 0, 0)))
    before = read(table)
    assert table.files().num_rows == 12, "no writer ever compacts"
    table.compact(wait=False)
    table.append(rows((99, 0, 0)))
    work(catalog, table)
    assert table.files().num_rows == 1 + (table.snapshots()["kind"].to_pylist()[-1] != "COMPACT")
    assert sorted([*before, str({"k": 99, "g": 0, "v": 0})]) == read(table)
    assert read(table, snapshot_id=12) == before


def test_rule_6_3_the_order_of_a_bucket_survives(catalog: Catalog) -> None:
    table = make(catalog, bucket="2", bucket_key="g")
    written: list[int] = []
    for number in range(9):
        table.append(rows(*((10 * number + place, place % 2, number) for place in range(4))))
        written += [10 * number + place for place in range(4)]
        if number % 3 == 2:
            table.compact(wait=False)
            work(catalog, table)
    assert table.files().num_rows < 9
    for group in (0, 1):
        found = table.scan(filter=f"g = {group}").to_arrow()["k"].to_pylist()
        assert found == [k for k in written if k % 10 % 2 == group]


ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "g"},
    "first-row": {"merge-engine": "first-row"},
    "lookup": {"changelog-producer": "lookup"},
    "input": {"changelog-producer": "input"},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("is_full", [False, True], ids=["minor", "full"])
def test_rule_6_5_a_compaction_changes_no_read(catalog: Catalog, engine: str, is_full: bool) -> None:
    table = make(catalog, key=["k"])
    if ENGINES[engine]:
        catalog.drop_table(table.name)
        table = catalog.create_table(table.name, SCHEMA, primary_key=["k"], options=ENGINES[engine])
    random = np.random.default_rng(5)
    for number in range(7):
        keys = random.permutation(6)[:4].tolist()
        table.upsert(rows(*((key, int(random.integers(0, 5)), number) for key in keys)))
    states = [read(table, snapshot_id=number) for number in range(1, 8)]
    changes = [str(each) for each in table.changes(after=0, until=7).to_arrow().to_pylist()]
    diff = {"incremental-between": "2,6", "incremental-between-scan-mode": "diff"}
    between = sorted(map(str, table.scan(options=diff).to_arrow().to_pylist()))
    table.compact(full=is_full, wait=False)
    work(catalog, table)
    assert "COMPACT" in table.snapshots()["kind"].to_pylist(), "something was compacted"
    assert read(table) == states[-1]
    assert [read(table, snapshot_id=number) for number in range(1, 8)] == states
    assert [str(each) for each in table.changes(after=0, until=7).to_arrow().to_pylist()] == changes
    assert table.changes(after=7).to_arrow().num_rows == 0, "a compaction shows nothing"
    assert sorted(map(str, table.scan(options=diff).to_arrow().to_pylist())) == between


def test_rule_6_6_who_lost_the_race_says_why_and_no_one_fails(catalog: Catalog) -> None:
    table = make(catalog, key=["k"])
    for number in range(3):
        table.upsert(rows((number, 0, number)))
    table.compact(full=True, wait=False)
    table.overwrite(rows((7, 7, 7)))
    work(catalog, table)
    assert read(table) == [str({"k": 7, "g": 7, "v": 7})]
    assert not [job for job in catalog.metastore.list_jobs([table.uuid]) if job.state.value == "failed"]
