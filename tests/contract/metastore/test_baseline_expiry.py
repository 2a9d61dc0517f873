"""Files whose rows full compactions have told expire once nothing leads on from them (semantics 3.6, 7.3)."""

from __future__ import annotations

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import RemoveEverything
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.memory import retention
from metastore.memory.state import StoredTable
from metastore.store.retention import Clearing
from metastore.testing import InProcessMetastore
from tests.contract.metastore.deferring import baseline, compact, make_deferring
from tests.contract.metastore.expiring import expire, expired
from tests.support.metastore.making import append, make_change

from .compacting import commit


def overwrite(metastore: Metastore, table: TableInfo, identifier: int) -> None:
    commit(metastore, make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything()), identifier)


def make_overwritten(metastore: Metastore) -> TableInfo:
    """`a` was compacted to `x`, which is told and was overwritten; `b` is there."""
    table = make_deferring(metastore)
    append(metastore, table, 1)
    assert compact(metastore, table, 2, (1,), "x", "t") == []
    overwrite(metastore, table, 3)
    append(metastore, table, 4, names="b")
    return table


def test_the_baseline_outlives_all_snapshots_in_which_it_was_live(metastore: Metastore) -> None:
    table = make_overwritten(metastore)
    assert expire(metastore, table).earliest == 4
    assert expired(metastore, table) == ["a.parquet", "t.parquet"]
    assert baseline(metastore, table) == "x"
    # The next full compaction still leads on from it.
    assert compact(metastore, table, 5, (3,), "y", "u", baseline=(2,)) == []
    assert (baseline(metastore, table, 4), baseline(metastore, table)) == ("x", "y")
    append(metastore, table, 6, names="c")
    expire(metastore, table, retain_last=3)
    assert baseline(metastore, table, 4) == "x"
    # Once no snapshot that is kept has it told, it goes.
    expire(metastore, table)
    assert expired(metastore, table) == ["a.parquet", "b.parquet", "t.parquet", "u.parquet", "x.parquet"]
    assert baseline(metastore, table) == "y"


def test_a_live_file_of_the_baseline_stays(metastore: Metastore) -> None:
    table = make_deferring(metastore)
    append(metastore, table, 1)
    compact(metastore, table, 2, (1,), "x", "t")
    append(metastore, table, 3, names="b")
    compact(metastore, table, 4, (2, 3), "y", "u", baseline=(2,))
    append(metastore, table, 5, names="c")
    expire(metastore, table)
    assert expired(metastore, table) == ["a.parquet", "b.parquet", "t.parquet", "u.parquet", "x.parquet"]
    assert baseline(metastore, table) == "y"
    metastore.forget_expired_files(table.table_uuid, metastore.list_expired_files(table.table_uuid, 100))
    overwrite(metastore, table, 6)
    compact(metastore, table, 7, baseline=(4,))
    append(metastore, table, 8, names="d")
    expire(metastore, table)
    assert expired(metastore, table) == ["c.parquet", "y.parquet"]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_control_expiry_that_knows_nothing_of_it_loses_what_is_to_be_compared(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = retention._find_expired

    def forget(table: StoredTable, clearing: Clearing) -> object:
        held, table.baseline = table.baseline, {}
        try:
            return iter(list(find(table, clearing)))
        finally:
            table.baseline = held

    monkeypatch.setattr(retention, "_find_expired", forget)
    table = make_overwritten(metastore)
    expire(metastore, table)
    assert "x.parquet" in expired(metastore, table)
