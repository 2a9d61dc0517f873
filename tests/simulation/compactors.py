"""Who compacts in the simulation: reads a state, writes it anew bucket by bucket, commits, clears up behind itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakelog.errors import CommitConflict, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import (
    BucketRef,
    Change,
    CommitRequest,
    CommitResult,
    CompactionGroup,
    split_group_files,
)
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.options.values import TableOptions
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.write.table_writer import TableWriter
from tests.simulation.actors import TABLE, World

Write = Callable[[World, str], tuple[Change, str, ObjectStore] | None]
"""The change, the attempt that it is to be committed with, and where its files are; None: there is nothing to do."""

_ROUNDS = 16
_LEVEL = 5


def compact(world: World, name: str, write: Write | None = None) -> None:
    """Compacts now and then, without asking whether another is at it.

    Args:
        world: Where.
        name: Under which it commits.
        write: Plans and writes a compaction; None: all of a bucket or of both, and nothing is told of it.
    """
    for number in range(1, _ROUNDS + 1):
        world.scheduler.sleep(world.scheduler.random.uniform(0.05, 1.5))
        try:
            planned = (write or _write)(world, name)
        except (Unavailable, OutcomeUnknown):
            continue  # What it wrote is nobody's: the collector finds its attempt open.
        if planned is None:
            continue
        change, attempt_id, store = planned
        result = _commit(world, CommitRequest(name, number, (change,), attempt_id))
        if result is None:
            continue
        dropped = result.results[0].dropped
        world.compactions.append((len(change.groups), len(dropped)))
        files = split_group_files(change)
        useless = [files[each.group] for each in dropped]
        if dropped and not world.habits.delete_dropped_groups_only:
            useless = files
        store.delete_many([file.path for group in useless for file in group])


def _write(world: World, name: str) -> tuple[Change, str, ObjectStore] | None:
    """A full compaction of both buckets or of one; a bucket's only file may also move."""
    catalog = world.catalog()
    table = catalog.table(TABLE)
    plan = catalog.metastore.plan(PlanRequest(table.uuid))
    inputs: dict[BucketRef, list[int]] = {}
    levels: dict[int, int] = {}
    for file in plan.files.to_pylist():
        inputs.setdefault(BucketRef(file["partition"], file["bucket"]), []).append(file["file_id"])
        levels[file["file_id"]] = file["level"]
    dice = world.scheduler.random
    chosen = dice.sample(list(inputs), dice.randint(1, len(inputs))) if inputs else []
    moved = [
        (ref, inputs[ref])
        for ref in chosen
        if len(inputs[ref]) == 1 and levels[inputs[ref][0]] < _LEVEL and dice.random() < 0.5
    ]
    chosen = [ref for ref in chosen if ref not in dict(moved)]
    if not (chosen or moved) or plan.snapshot is None:
        return None
    rows = table.scan(snapshot_id=plan.snapshot.snapshot_id).to_arrow()
    # It takes long, and others go on meanwhile.
    world.scheduler.sleep(world.scheduler.random.uniform(0, 4))
    attempt_id = catalog.metastore.stage_attempt([table.uuid], name).attempt_id
    options = TableOptions(plan.table.options)
    store = world.stores.open(plan.table.location)
    writer = TableWriter(store, plan.table.schema, options, attempt_id)
    writer.write(rows)
    outputs: dict[BucketRef, list[DataFile]] = {}
    for written in writer.finish():
        ref = BucketRef(written.partition, written.bucket)
        outputs.setdefault(ref, []).append(replace(written, level=_LEVEL))
    change = Change(
        table.uuid,
        SnapshotKind.COMPACT,
        plan.table.schema.schema_id,
        options.bucket_count(True),
        tuple(file for ref in chosen for file in outputs.get(ref, ())),
        groups=(
            *(CompactionGroup(ref, tuple(inputs[ref]), len(outputs.get(ref, ())), level=_LEVEL) for ref in chosen),
            *(CompactionGroup(ref, moves=tuple(ids), level=_LEVEL) for ref, ids in moved),
        ),
    )
    return change, attempt_id, store


def _commit(world: World, request: CommitRequest) -> CommitResult | None:
    """The same request until something is certain; None: it was refused, and nothing of it will ever be applied."""
    metastore = world.catalog().metastore
    while True:
        try:
            return metastore.commit(request)
        except (OutcomeUnknown, Unavailable):
            world.scheduler.sleep(1)
        except CommitConflict:
            return None
