"""Who lets snapshots expire in the simulation, and who reads for long meanwhile."""

from __future__ import annotations

from typing import Final

from lakelog.errors import DataCorrupted, OutcomeUnknown, SnapshotExpired, Unavailable
from tests.simulation.actors import TABLE, World, fold_history

_ROUNDS: Final = 20
_LATER_MS: Final = 1 << 52


def expire(world: World) -> None:
    """Has all but some of the newest snapshots expire, however young, and deletes the files at once."""
    catalog = world.catalog()
    uuid = world.auditing_catalog().table(TABLE).uuid
    store = world.stores.open(world.auditing_catalog().table(TABLE).location)
    dice = world.scheduler.random
    for _ in range(_ROUNDS):
        world.scheduler.sleep(dice.uniform(0.05, 2))
        try:
            step = catalog.metastore.expire_snapshots(uuid, older_than_ms=_LATER_MS, retain_last=dice.randint(1, 3))
            world.expired += step.earliest - step.earliest_before
            if not world.habits.delete_only_aborted:
                # Looks what is live, and deletes the rest.
                live = set(world.auditing_catalog().table(TABLE).files()["path"].to_pylist())
                store.delete_many([each.path for each in store.list_objects("data") if each.path not in live])
                continue
            paths = catalog.metastore.list_expired_files(uuid, dice.randint(1, 10))
            if paths:
                store.delete_many(paths)
                catalog.metastore.forget_expired_files(uuid, paths)
        except (Unavailable, OutcomeUnknown):
            continue  # Whatever was done, the next round goes on from there.


def read_for_long(world: World, name: str) -> None:
    """Holds the newest snapshot, and reads it again and again while others expire, compact and overwrite."""
    dice = world.scheduler.random
    for number in range(8):
        world.scheduler.sleep(dice.uniform(0.1, 3))
        catalog = world.catalog()
        holder = f"{name} {number}"
        try:
            table = catalog.table(TABLE)
            scan = table.scan()
            if not scan.snapshot_id:
                continue
            if world.habits.lease_what_is_read:
                catalog.metastore.lease_snapshot(table.uuid, holder, scan.snapshot_id, 1_000_000)
        except SnapshotExpired:
            continue  # Between planning and holding, so that nobody has relied on it yet.
        except (Unavailable, OutcomeUnknown):
            continue
        wanted = next(dict(state) for each, state in fold_history(world) if each.snapshot_id == scan.snapshot_id)
        for _ in range(3):
            world.scheduler.sleep(dice.uniform(0.5, 5))
            try:
                rows = scan.to_arrow().to_pylist()
            except (SnapshotExpired, DataCorrupted) as error:
                raise AssertionError(f"{name} lost snapshot {scan.snapshot_id} while it held it: {error}") from error
            assert {row["k"]: row["v"] for row in rows} == wanted, f"{name} at snapshot {scan.snapshot_id}"
        world.leased_reads += 1
        try:
            catalog.metastore.release_snapshot(table.uuid, holder)
        except (Unavailable, OutcomeUnknown):
            continue  # It keeps what it held; the audit at the end asks only for what is kept.
