"""A disk that is full where data files go: a clear error, nothing half visible, and on it goes when there is room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import ResourceExhausted
from tests.e2e.faults.lab import Lab
from tests.e2e.faults.writer_process import KEYED, LOG, SCHEMA
from tests.support.small_disk import SmallDisk, small_disk

pytestmark = pytest.mark.e2e


@pytest.fixture
def disk(lab: Lab) -> Iterator[SmallDisk]:
    """A tiny file system in the place of the tables' folders."""
    with lab.connect() as catalog:
        folders = [Path(catalog.table(name).location.removeprefix("file://")) for name in (KEYED, LOG)]
    with small_disk(folders, "128k") as mounted:
        yield mounted


def incompressible(rows: int) -> pa.Table:
    return pa.table({"k": range(rows), "v": [os.urandom(500).hex() for _ in range(rows)]}, schema=SCHEMA)


@pytest.mark.parametrize("name", [KEYED, LOG])
def test_a_full_disk_refuses_a_write_whole_and_takes_it_when_there_is_room(
    lab: Lab, disk: SmallDisk, name: str
) -> None:
    with lab.connect() as catalog:
        table = catalog.table(name)
        large = incompressible(2000)
        for _ in range(3):
            with pytest.raises(ResourceExhausted, match=r"cannot be written.*[Nn]o space left on device.*Make room"):
                table.append(large, writer="w", identifier=1)
        assert table.snapshots().num_rows == 0
        assert lab.orphans() == {}, "what was written before the disk was full is in the way of what could be done"
        small = incompressible(10)
        table.append(small, writer="w", identifier=2)
        assert table.scan().to_arrow().sort_by("k") == small
        disk.resize("8m")
        table.append(large, writer="w", identifier=1)
        assert table.scan().count() == 2000 + (10 if name == LOG else 0)
        assert lab.orphans() == {}


def test_both_tables_of_a_transaction_or_none(lab: Lab, disk: SmallDisk) -> None:
    with lab.connect() as catalog:
        transaction = catalog.transaction(writer="w", identifier=1)
        transaction.table(LOG).append(incompressible(10))
        transaction.table(KEYED).upsert(incompressible(2000))
        with pytest.raises(ResourceExhausted):
            transaction.commit()
        assert lab.seen() == []
        assert lab.orphans() == {}
