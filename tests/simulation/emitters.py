"""Compactors that tell what has changed (semantics 3.6), who rolls back beside them, and who checks what was told.

They plan, do and commit as the product does, but under no lease: any number of them is at one bucket, and some come to
their commit when all others have forgotten about them.
"""

from __future__ import annotations

from typing import Final

import pyarrow.compute as pc

from compactor.compactions.bucket_work import Strategy, run_rewrite_task, to_work_change
from compactor.compactions.changelog_emission import plan_next
from lakelog.errors import DataCorrupted, NotFound, OutcomeUnknown, SnapshotExpired, Unavailable
from lakelog.format.commit.request import BucketRef, Change, CommitRequest
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.tables.plan import PlanRequest
from lakelog.reads.scan_planning import plan_scan
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.store import ObjectStore
from tests.simulation.actors import RESTORED, TABLE, World, fold_history
from tests.simulation.subscribers import apply

OPTIONS: Final = {"changelog-producer": "full-compaction"}
BUCKETS: Final = 2
_LATE: Final = 0.15
"""How likely one sleeps for so long before it writes, or before it commits, that all has changed meanwhile."""


def plan_and_do(world: World, name: str) -> tuple[Change, str, ObjectStore] | None:
    """Does what is planned for a bucket now; None: nothing is."""
    dice = world.scheduler.random
    catalog = world.catalog()
    info = catalog.table(TABLE).info
    bucket = BucketRef(b"", dice.randrange(BUCKETS))
    # Most compactions tell.
    strategy = dice.choice((Strategy.FULL, Strategy.FULL, Strategy.MINOR, Strategy.DUE))
    work = plan_next(catalog.metastore, info, bucket, strategy)
    if isinstance(work, NoPlan):
        return None
    _linger(world)
    attempt_id = catalog.metastore.stage_attempt([info.table_uuid], name).attempt_id
    store = world.stores.open(info.location)
    try:
        done = [run_rewrite_task(store, work.info, attempt_id, rewrite_task) for rewrite_task in work.rewrite_tasks]
    except (DataCorrupted, NotFound):
        # What it had planned was replaced, and expired: nobody keeps files for compactors. Else somebody lost them.
        assert world.expired, f"{name} misses files, and none has expired"
        return None
    _linger(world)
    return to_work_change(work, done, work.moved), attempt_id, store


def _linger(world: World) -> None:
    dice = world.scheduler.random
    world.scheduler.sleep(dice.uniform(3, 12) if dice.random() < _LATE else dice.uniform(0, 0.7))


def roll_back(world: World) -> None:
    """Makes some earlier state the state again, a few times."""
    dice = world.scheduler.random
    for number in range(1, 9):
        world.scheduler.sleep(dice.uniform(0.2, 3))
        target = 0
        while True:
            try:
                table = world.catalog().table(TABLE)
                # Decided once, so that a repeat asks for the same.
                target = target or dice.choice(table.snapshots()["id"].to_pylist() or [0])
                if target:
                    properties = {RESTORED: str(target)}
                    table.rollback_to(target, writer="roller", identifier=number, properties=properties)
            except SnapshotExpired:
                break
            except (OutcomeUnknown, Unavailable):
                world.scheduler.sleep(1)
            else:
                break


def check_now_and_then(world: World, *, again: bool) -> None:
    """Checks what was told while the others are at work; `emit_the_rest` checks all that is kept at the end.

    Args:
        world: What is checked.
        again: Begins with the first snapshot each time, because it may have expired at the end.
    """
    checked = 0
    for _ in range(6):
        world.scheduler.sleep(world.scheduler.random.uniform(1, 10))
        checked = check_baseline(world, 0 if again else checked)


def check_baseline(world: World, first: int = 0) -> int:
    """Holds what a reader of changes alone knows at each snapshot that is kept against what it was told by then.

    Args:
        world: What is checked.
        first: The snapshot to begin with; those before it are left out.

    Returns:
        The last snapshot that was checked; 0: there is none.

    Raises:
        AssertionError: A change was told twice, or never, or a file that is needed for it is gone.
    """
    table = world.auditing_catalog().table(TABLE)
    kept = [number for number in table.snapshots()["id"].to_pylist() if number >= first]
    if not kept:
        return 0
    known = _read_baseline(table, kept[0])
    changes = table.changes(kept[0]).to_arrow()
    for number in kept[1:]:
        baseline = changes.filter(pc.field("_snapshot_id") == number)
        for batch in baseline.to_batches():
            apply(known, batch, f"a reader of changes at snapshot {number}")
        assert known == _read_baseline(table, number), f"what was told up to snapshot {number} is something else"
        world.emissions += baseline.num_rows
    return int(kept[-1])


def _read_baseline(table: Table, number: int) -> dict[int, str]:
    scan = plan_scan(
        table._context,
        table.info,
        columns=None,
        filter=None,
        limit=None,
        snapshot_id=number,
        timestamp=None,
        options=None,
        baseline=True,
    )
    return {row["k"]: row["v"] for row in scan.to_arrow().to_pylist()}


def emit_the_rest(world: World) -> None:
    """Compacts what is there at the end, with nobody else about: then all that is there is told, and once."""
    catalog = world.auditing_catalog()
    metastore, table = catalog.metastore, catalog.table(TABLE)
    for number in range(BUCKETS):
        work = plan_next(metastore, table.info, BucketRef(b"", number), Strategy.FULL)
        if isinstance(work, NoPlan):
            continue
        attempt_id = metastore.stage_attempt([table.uuid], "last").attempt_id
        store = catalog.open_store(work.info)
        done = [run_rewrite_task(store, work.info, attempt_id, rewrite_task) for rewrite_task in work.rewrite_tasks]
        request = CommitRequest("last", number + 1, (to_work_change(work, done, work.moved),), attempt_id)
        (result,) = metastore.commit(request).results
        assert result.dropped == (), f"nobody came before it, and yet: {result.dropped}"
    check_baseline(world)
    *_, (last, state) = fold_history(world)
    assert _read_baseline(table, last.snapshot_id) == state, "not all that is there was told"
    live, baseline = (
        metastore.plan(PlanRequest(table.uuid, baseline=baseline)).files["file_id"] for baseline in (False, True)
    )
    assert sorted(live.to_pylist()) == sorted(baseline.to_pylist())
