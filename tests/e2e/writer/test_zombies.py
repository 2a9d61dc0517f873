"""A second instance and a full disk: what the writer service's fence and repetitions must not lose or double."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.e2e.writer.world import World
from tests.support.small_disk import small_disk

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def rows_of_file(number: int) -> pa.Table:
    ids = range(number * 10, number * 10 + 10)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    return pa.table({"id": ids, "name": [f"name {row}" for row in ids]}, schema=schema)


@pytest.mark.parametrize(("step", "doubled"), [("frozen", []), ("unfenced", list(range(10, 20)))])
def test_who_was_replaced_before_its_commit_is_fenced(world: World, step: str, doubled: list[int]) -> None:
    """And the control, in which the commit leaves the fence out.

    The successor begins with a checkpoint of its own and other batches: of one file each, where the zombie takes two.
    The numbers alone then take the zombie's batch 0 for the successor's, whose batch 1 brings the second file again.
    """
    world.write_pipeline()
    world.add_files(3)
    zombie = world.start("--lease-seconds", "1", fault=f"{step}:0")
    world.until(lambda: zombie.is_frozen())
    assert world.orphans(), zombie.text()
    metastore = world.catalog.metastore
    world.until(lambda: metastore.acquire_lease(f"pipeline/{world.name}", "successor", 60_000).acquired)
    assert world.snapshots() == 0

    zombie.send_all(signal.SIGCONT)
    assert zombie.wait() == 4, zombie.text()
    table = world.catalog.table(world.table)
    for number in range(3):
        table.append(rows_of_file(number), writer=f"pipeline-{world.name}", identifier=number)
    ids = world.ids()
    assert sorted(set(ids)) == list(range(30))
    assert [row for row in sorted(set(ids)) if ids.count(row) > 1] == doubled
    if step == "frozen":
        assert world.orphans() == [], "the fenced one took its files back"


def test_a_full_disk_is_waited_out(world: World) -> None:
    table = world.catalog.table(world.table)
    folder = Path(table.location.removeprefix("file://"))
    world.write_pipeline(trigger="{interval: 100 ms}")
    with small_disk([folder], "16k") as disk:
        world.add_files(1, rows=30_000)
        writer = world.start("--lease-seconds", "2")

        def failed() -> bool:
            report = world.pipeline()
            return report is not None and "No space left on device. Nothing of this write is vis" in report.last_error

        world.until(failed)
        assert (world.snapshots(), world.ids()) == (0, [])
        disk.resize("16m")
        world.until(lambda: world.snapshots() > 0)
        assert writer.process.poll() is None, "the same process goes on"
        assert world.has_all_rows_once()
        assert world.orphans() == []
        world.until(lambda: (found := world.pipeline()) is not None and found.last_error == "")
        writer.send(signal.SIGTERM)
        assert writer.wait() == 0, writer.text()
