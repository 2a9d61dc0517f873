"""What full compactions tell, applied from the first on, is what they left, whatever came between (semantics 3.6).

LAKELOG_RANDOM_TABLES makes more of them than CI has time for, LAKELOG_RANDOM_SEED begins elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from compactor.compactions import changelog_emission
from compactor.compactions.bucket_work import Strategy, run_rewrite_task, to_work_change
from compactor.compactions.changelog_emission import plan_next
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.errors import CommitConflict
from lakelog.format.commit import rebase as commit_rebase
from lakelog.format.commit.request import BucketRef, CommitRequest
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.tables.plan import AtSnapshot, PlanRequest
from lakelog.format.types.column_changes import AddColumn, ColumnChange, DropColumn, WidenColumn
from lakelog.reads.scan_planning import plan_scan
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.lookup.bucket_changes import group_by_bucket
from lakelog.storage.objects.stores import LocationStores
from lakelog.storage.parquet.live_file import to_live_files
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases
from tests.property.tables.compacted import commit_once, identifiers, rewrite_some

TABLES = int(os.environ.get("LAKELOG_RANDOM_TABLES", "24"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))
CONTROLLED = 24
SCHEMA = pa.schema(
    [
        pa.field("pt", pa.int64(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("seq", pa.int64()),
    ]
)
WIDE = pa.decimal128(38, 2)
DEDUPLICATE = "changelog-producer.row-deduplicate"
PRODUCER = {"changelog-producer": "full-compaction"}
OPTIONS: list[dict[str, str]] = [
    {},
    {"bucket": "2"},
    {"sequence.field": "seq"},
    {"sequence.field": "seq", "sequence.delete-retention": "1 ms"},
    {DEDUPLICATE: "true"},
    # Several files a run, and several runs a commit.
    {"target-file-size": "1 kb", "write-buffer-size": "1 kb"},
]

Rows = dict[tuple[int, int], tuple[int | None, int | None]]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    # Nothing is due by itself.
    service = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/", planners=()))
    catalog = Catalog(service, LocationStores())
    catalog.create_database("shop")
    yield catalog
    service.close()


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_the_changelog_leads_to_what_full_compactions_left(catalog: Catalog, seed: int) -> None:
    run(catalog, seed)


def test_control_nothing_is_judged_by_the_baseline(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_rebase, "_find_baseline_conflict", lambda *_: None)
    assert fails(catalog)


def test_control_what_was_overwritten_is_forgotten(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = changelog_emission.plan_emission_work

    def forget(live: Any, bucket: Any, strategy: Any, baseline: Any) -> Any:
        there = set(live.files["file_id"].to_pylist())
        return plan(live, bucket, strategy, [file for file in baseline if file.file_id in there])

    monkeypatch.setattr(changelog_emission, "plan_emission_work", forget)
    assert fails(catalog)


def fails(catalog: Catalog) -> bool:
    """Whether the test notices that something is missing."""
    for seed in range(CONTROLLED):
        try:
            run(catalog, seed)
        except AssertionError:
            return True
    return False


def run(catalog: Catalog, seed: int) -> None:
    random = Random(seed)
    options = random.choice(OPTIONS)
    begins_so = random.random() < 0.7 or DEDUPLICATE in options
    table = catalog.create_table(
        f"shop.t{seed}",
        SCHEMA,
        primary_key=["pt", "k"],
        partition_by=["pt"] if random.random() < 0.6 else [],
        # Also while each commit tells by itself: then overwrites do, too.
        options=options | {"streaming-read-overwrite": "true"} | (PRODUCER if begins_so else {}),
    )
    history = History(table, random)
    for _ in range(random.randrange(10, 30)):
        history.step()
    history.emit_all()
    history.check()


class History:
    """A table that is written, overwritten, compacted in every way, and altered."""

    def __init__(self, table: Table, random: Random) -> None:
        self.table = table
        self.random = random
        self._waiting: list[CommitRequest] = []

    @property
    def metastore(self) -> Metastore:
        return self.table._context.metastore

    def step(self) -> None:
        what = self.random.random()
        if what < 0.45:
            self.table.write(self._draw_rows())
        elif what < 0.55:
            self._overwrite()
        elif what < 0.58 and self._latest():
            self.table.rollback_to(self.random.randrange(self._latest()) + 1)
        elif what < 0.62:
            self._alter()
        elif what < 0.66:
            self._alter_columns()
        elif what < 0.7:
            rewritten = rewrite_some(self.table, self.random)
            if rewritten is not None:
                self._waiting.append(rewritten)
        else:
            for bucket in self._buckets():
                # Now and then by two compactors at once.
                for _ in range(self.random.choice((0, 1, 1, 2))):
                    self._compact(bucket, self.random.choice(tuple(Strategy)))
        while self._waiting and self.random.random() < 0.7:
            commit_once(self.table, self._waiting.pop(self.random.randrange(len(self._waiting))))

    def emit_all(self) -> None:
        """Has everything told."""
        self._commit_waiting()
        if self.table.options.get("changelog-producer") != "full-compaction":
            self.table.alter(set=PRODUCER)
        for bucket in self._buckets():
            self._compact(bucket, Strategy.FULL)
        # Nobody came before them.
        assert self._commit_waiting() == []
        assert self._read_baseline(self._latest()) == self._read(self._latest())
        # Nothing is left to tell.
        live, baseline = (
            self.metastore.plan(PlanRequest(self.table.uuid, baseline=baseline)).files for baseline in (False, True)
        )
        assert sorted(live["file_id"].to_pylist()) == sorted(baseline["file_id"].to_pylist())
        self.table.alter(unset=[*PRODUCER, DEDUPLICATE])

    def _commit_waiting(self) -> list[str]:
        """Commits what waits; tells why groups of it were dropped."""
        dropped: list[str] = []
        while self._waiting:
            (result,) = commit_once(self.table, self._waiting.pop(0)).results
            dropped += [f"{each.reason}: {each.message}" for each in result.dropped]
        return dropped

    def check(self) -> None:
        """Compares what a reader of changes alone knows at each snapshot with what it is to have been told."""
        changes: dict[int, list[dict[str, Any]]] = {}
        for row in self.table.changes().to_arrow().to_pylist():
            changes.setdefault(row["_snapshot_id"], []).append(row)
        known: Rows = {}
        for number in range(1, self._latest() + 1):
            for row in changes.get(number, ()):
                key, value = (row["pt"], row["k"]), (row["v"], row["seq"])
                if row["_row_kind"] in ("-U", "-D"):
                    assert known.pop(key, None) == value, f"snapshot {number} takes away what was not there: {row}"
                else:
                    assert key not in known, f"snapshot {number} adds what is there already: {row}"
                    known[key] = value
            assert known == self._read_baseline(number), f"snapshot {number}"

    def _compact(self, bucket: BucketRef, strategy: Strategy) -> None:
        """Does what is planned now; it is committed sooner or later."""
        work = self._plan(bucket, strategy)
        if isinstance(work, NoPlan):
            return
        attempt_id = self.metastore.stage_attempt([self.table.uuid], "compactor").attempt_id
        store = self.table._context.open_store(work.info)
        done = [run_rewrite_task(store, work.info, attempt_id, piece) for piece in work.rewrite_tasks]
        change = to_work_change(work, done, work.moved)
        self._waiting.append(CommitRequest("compactor", next(identifiers), (change,), attempt_id))

    def _plan(self, bucket: BucketRef, strategy: Strategy) -> Any:
        return plan_next(self.metastore, self.metastore.get_table_by_uuid(self.table.uuid), bucket, strategy)

    def _overwrite(self) -> None:
        rows = self._draw_rows().drop_columns(["_row_kind"])
        if self.random.random() < 0.3:
            rows = rows.slice(0, 0)
        if self.table.schema.names and self.table.partition_by and self.random.random() < 0.6:
            pt = self.random.randrange(2)
            self.table.overwrite(rows.filter(pa.compute.equal(rows["pt"], pt)), partition={"pt": pt})
        else:
            self.table.overwrite(rows)

    def _alter(self) -> None:
        if self.table.options.get("changelog-producer") == "full-compaction":
            if DEDUPLICATE in self.table.options:
                return
            try:
                self.table.alter(unset=list(PRODUCER))
            except CommitConflict as refused:
                if refused.reason != "CHANGES_UNTOLD":
                    raise
        else:
            self.table.alter(set=PRODUCER | {"num-levels": str(self.random.randrange(3, 8))})

    def _alter_columns(self) -> None:
        """Values stay equal, whatever becomes of their types; and so does what rows of before show."""
        types = {field.name: field.type for field in self.table._refresh().schema.arrow}
        name = self.random.choice(("v", "seq", "c"))
        change: ColumnChange = AddColumn("c", pa.int32(), default=self.random.randrange(9))
        if name != "c" and types[name] != WIDE:
            change = WidenColumn(name, WIDE)
        elif "c" in types:
            change = DropColumn("c")
        self.table.alter(columns=[change])

    def _buckets(self) -> list[BucketRef]:
        """All that have files, or had some that were told."""
        if self._latest() == 0:
            return []
        plans = [self.metastore.plan(PlanRequest(self.table.uuid, baseline=baseline)) for baseline in (False, True)]
        files = [file for plan in plans for file in to_live_files(plan.files)]
        return [BucketRef(*bucket) for bucket in sorted(group_by_bucket(files))]

    def _latest(self) -> int:
        return self.metastore.list_snapshots(self.table.uuid, limit=1).latest_snapshot_id

    def _read(self, number: int, *, baseline: bool = False) -> Rows:
        info = self.metastore.get_table_by_uuid(self.table.uuid)
        scan = plan_scan(
            self.table._context,
            info,
            columns=None,
            filter=None,
            limit=None,
            snapshot_id=number,
            timestamp=None,
            options=None,
            baseline=baseline,
        )
        return {(row["pt"], row["k"]): (row["v"], row["seq"]) for row in scan.to_arrow().to_pylist()}

    def _read_baseline(self, number: int) -> Rows:
        assert self.metastore.plan(PlanRequest(self.table.uuid, AtSnapshot(number), baseline=True)).snapshot is not None
        return self._read(number, baseline=True)

    def _draw_rows(self) -> pa.Table:
        draw = self.random
        count = draw.choice((1, 3, 10, 60))
        columns: dict[str, list[Any]] = {
            "pt": [draw.randrange(2) for _ in range(count)],
            "k": [draw.randrange(20) for _ in range(count)],
            "v": [draw.choice([None, 1, 2, 3]) for _ in range(count)],
            "seq": [draw.choice([None, *range(6)]) for _ in range(count)],
            "_row_kind": [draw.choice(["+I", "+I", "+U", "-D", "-U"]) for _ in range(count)],
        }
        return pa.table(columns, schema=SCHEMA.append(pa.field("_row_kind", pa.string())))
