"""The recipe of docs/erasing-rows.md, step by step: at its end no file of the table holds the rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from metastore.jobs.due_work import WorkPlanner
from metastore.testing import InProcessMetastore
from metastore.use_cases import PLANNERS
from tests.support.tables.attaching import attach_all

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("customer", pa.int64()), ("day", pa.string())])
CUSTOMER = "customer = 17"


@pytest.fixture
def planners() -> Sequence[WorkPlanner]:
    return PLANNERS


def rows(first: int, day: str) -> pa.Table:
    ids = range(first, first + 40)
    return pa.table([[*ids], [each % 20 for each in ids], [day] * 40], schema=SCHEMA)


def erase(catalog: Catalog, table: Table, metastore: InProcessMetastore) -> None:
    """As the page says."""
    assert table.delete_where("customer = :id", params={"id": 17}).deleted_rows
    table.compact(full=True, wait=False)
    attach_all(metastore)
    for tag in table.tags.list()["name"].to_pylist():
        table.tags.delete(tag)
    table.expire_snapshots(older_than=SystemClock().now_ms() + 60_000, retain_last=1)
    metastore.run(metastore.use_cases.due_work.step())
    attach_all(metastore)


@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "id"}])
def test_at_the_end_no_file_of_an_append_table_holds_a_row(
    catalog: Catalog, metastore: InProcessMetastore, options: dict[str, str]
) -> None:
    table = catalog.create_table("shop.visits", SCHEMA, partition_by=["day"], options=options)
    table.append(rows(0, "mon"))
    table.append(rows(40, "tue"))
    table.tags.create("before")
    assert sum(table.find_stored_rows(CUSTOMER)["rows"].to_pylist()) == 4
    table.delete_where("customer = 17 AND day = 'mon'")
    # Reads do not show it any more; files hold it still.
    assert table.count("customer = 17 AND day = 'mon'") == 0
    assert sum(table.find_stored_rows(CUSTOMER)["rows"].to_pylist()) == 4
    erase(catalog, table, metastore)
    assert table.find_stored_rows(CUSTOMER).num_rows == 0
    assert table.count() == 76
    assert sum(table.find_stored_rows("customer = 3")["rows"].to_pylist()) == 4
    assert not table.check_files().broken


def test_nor_does_one_of_a_table_with_a_key(catalog: Catalog, metastore: InProcessMetastore) -> None:
    options = {"bucket": "2", "changelog-producer": "lookup"}
    table = catalog.create_table("shop.visits", SCHEMA, primary_key=["id"], options=options)
    table.upsert(rows(0, "mon"))
    table.upsert(rows(20, "tue"))
    # Data files and changelogs.
    assert table.find_stored_rows(CUSTOMER).num_rows > 2
    erase(catalog, table, metastore)
    assert table.find_stored_rows(CUSTOMER).num_rows == 0
    assert table.count() == 57
