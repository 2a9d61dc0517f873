"""Dropped tables go when they were kept for long enough, and nothing else does, whoever dies on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.retention.purges import PurgeJobExecutor
from lakelog.errors import DataCorrupted, NotFound
from lakelog.format.jobs.job import JobState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from metastore.memory.dropped import MemoryDropped
from metastore.postgres.dropped import PostgresDropped
from metastore.testing import InProcessMetastore
from tests.support.metastore.kept_tables import end_keeping
from tests.support.tables.attaching import attach_all, make_service
from tests.support.tables.data_files import data_files

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])


class DiesError(BaseException):
    """As a kill -9 would: no `except Exception` sees it, and nothing is tidied up behind it."""


def make_orders(catalog: Catalog, name: str = "shop.orders") -> Table:
    orders = catalog.create_table(name, SCHEMA, primary_key=["k"], options={"changelog-producer": "lookup"})
    for number in range(3):
        orders.upsert(pa.table([[1, 2], [number, number]], schema=SCHEMA))
    return orders


def rows(table: Table) -> list[tuple[int, int]]:
    return [(row["k"], row["v"]) for row in table.scan().to_arrow().sort_by("k").to_pylist()]


def hurry(metastore: InProcessMetastore, table: Table) -> None:
    """Lets a dropped table's time be over."""
    end_keeping(metastore, table.uuid)


def files_of(warehouse: Path, table: Table) -> list[str]:
    return [path for path in data_files(warehouse) if path.startswith(table.uuid)]


def test_a_dropped_table_stays_until_its_time_is_over(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path
) -> None:
    orders, others = make_orders(catalog), make_orders(catalog, "shop.others")
    catalog.drop_table("shop.orders")
    attach_all(metastore)
    assert len(files_of(warehouse, orders)) == len(files_of(warehouse, others)) > 3
    assert rows(catalog.restore_table("shop.orders")) == [(1, 2), (2, 2)]
    catalog.drop_table("shop.orders")
    hurry(metastore, orders)
    attach_all(metastore)
    assert not (warehouse / orders.uuid).exists()
    assert catalog.dropped_tables("shop").num_rows == 0
    assert rows(others) == [(1, 2), (2, 2)]
    assert others.changes().count() == 2 + 4 + 4


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_what_a_late_writer_has_written_goes_too(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path
) -> None:
    orders = make_orders(catalog)
    catalog.drop_table("shop.orders")
    hurry(metastore, orders)
    purge_rows = metastore.purge_rows

    def write_meanwhile(job_id: int, epoch: int) -> int:
        late = warehouse / orders.uuid / "data" / ("0" * 32)
        if not late.exists():
            late.mkdir(parents=True)
            (late / "late.parquet").write_bytes(b"late")
        return purge_rows(job_id, epoch)

    metastore.purge_rows = write_meanwhile  # type: ignore[method-assign]
    attach_all(metastore)
    assert not (warehouse / orders.uuid).exists()


@pytest.mark.parametrize("step", ["begun", "half of the files", "files", "rows", "end"])
def test_who_dies_at_any_step_is_taken_over(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, others = make_orders(catalog), make_orders(catalog, "shop.others")
    catalog.drop_table("shop.orders")
    hurry(metastore, orders)

    def dies_after(call: Callable[..., Any], then: str) -> Callable[..., Any]:
        def run(*arguments: Any, **more: Any) -> Any:
            done = call(*arguments, **more)
            if step == then:
                raise DiesError
            return done

        return run

    def half(self: Any, store: Any, *more: Any) -> None:
        if step == "half of the files":
            store.delete_many([each.path for each in next(iter(store.list_pages(2)))])
            raise DiesError
        delete_files(self, store, *more)

    delete_files = PurgeJobExecutor._delete_files
    with monkeypatch.context() as fault:
        fault.setattr(PurgeJobExecutor, "_delete_files", dies_after(half, "files"))
        fault.setattr(metastore, "begin_purge", dies_after(metastore.begin_purge, "begun"))
        fault.setattr(metastore, "purge_rows", dies_after(metastore.purge_rows, "rows"))
        fault.setattr(metastore, "finish_job", dies_after(metastore.finish_job, "end"))
        with pytest.raises(DiesError):
            make_service(metastore, lease_s=1).run()
    with pytest.raises(NotFound, match=r"kept no longer|no dropped table"):
        catalog.restore_table("shop.orders")
    _do_all(metastore, orders)
    assert not (warehouse / orders.uuid).exists()
    assert catalog.dropped_tables("shop").num_rows == 0
    assert rows(others) == [(1, 2), (2, 2)]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_control_a_table_that_is_restored_without_its_purge_mark_lacks_files(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = make_orders(catalog)
    catalog.drop_table("shop.orders")
    hurry(metastore, orders)

    async def no_purge_mark(self: Any, table_id: int) -> None:
        """Leaves the protection out."""

    monkeypatch.setattr(MemoryDropped, "mark_purged", no_purge_mark)
    monkeypatch.setattr(PostgresDropped, "mark_purged", no_purge_mark)

    def dies(*_: Any) -> int:
        raise DiesError

    with monkeypatch.context() as fault:
        fault.setattr(metastore, "purge_rows", dies)
        with pytest.raises(DiesError):
            make_service(metastore, lease_s=1).run()
    assert files_of(warehouse, orders) == []
    restored = catalog.restore_table("shop.orders")
    with pytest.raises(DataCorrupted, match="is missing, though the table refers to it"):
        rows(restored)


def _do_all(metastore: InProcessMetastore, orders: Table) -> None:
    """Has the job taken over once its holder was not heard of, and done."""
    service = make_service(metastore, once=False)
    while any(each.state is not JobState.DONE for each in metastore.list_jobs([orders.uuid])):
        service.step()
