"""Who acts in the simulation: writers with successors, an overwriter, a collector without patience, auditors."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import CommitConflict, Effect, LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import CommitRequest
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.maintenance.checking.file_check_result import FileCheck
from lakelog.sdk.tables.table import Table
from metastore.memory.store import MemoryStore
from metastore.testing import find_methods
from metastore.use_cases import UseCases
from tests.simulation.scheduler import Scheduler
from tests.simulation.world import Faults, PlainStores, SimulatedCalls, SimulatedStores, VirtualClock

SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
TABLE: Final = "sim.t"
RESTORED: Final = "restored"
"""The property of a rollback: the snapshot whose state it made the state again."""
_KEYS: Final = 12
"""Few, so that commits meet."""


@dataclass(frozen=True)
class Habits:
    """What actors do; all true in the product. A habit that is off is a control that must be noticed."""

    same_identifier_on_repeat: bool = True
    abort_before_delete: bool = True
    keep_files_on_unknown: bool = True
    keep_position_when_done: bool = True
    own_epoch: bool = True
    delete_dropped_groups_only: bool = True
    lease_what_is_read: bool = True
    delete_only_aborted: bool = True


@dataclass
class Sink:
    """What the readers of one consumer leave behind; it outlives them.

    Args:
        rows: The table as its changes tell it.
        at: The snapshot that it is.
        states: All that it ever was, by snapshot.
        handled: Snapshots that were handled once their position was kept.
        fenced: How many readers were told that another has taken over.
        restarted: How many readers found that the consumer had expired.
        broken: How many ended because columns that they showed had gone.
    """

    rows: dict[int, str] = field(default_factory=dict)
    at: int = 0
    states: dict[int, dict[int, str]] = field(default_factory=dict)
    handled: list[int] = field(default_factory=list)
    fenced: int = 0
    restarted: int = 0
    broken: int = 0


def as_simulated(catalog: Catalog) -> Catalog:
    """A catalog of which nothing happens by itself: no thread of its own takes part in the order of things."""
    catalog.context.leased_reads.close()
    return catalog


@dataclass
class World:
    """Everything that there is in one run, and what the auditors know of it."""

    seed: int
    scheduler: Scheduler
    store: MemoryStore
    use_cases: UseCases
    loop: asyncio.AbstractEventLoop
    faults: Faults
    stores: SimulatedStores
    batches_per_writer: int
    habits: Habits = field(default_factory=Habits)
    cache_folder: str | None = None
    sinks: dict[str, Sink] = field(default_factory=dict)
    acknowledged: set[tuple[str, int]] = field(default_factory=set)
    audited: set[int] = field(default_factory=set)
    """Snapshots that were audited at least once."""
    applied: set[tuple[str, int]] = field(default_factory=set)
    """Writer and number of each batch that the last audit found in the table."""
    successors: int = 0
    late_readers: float = 0.0
    """How likely the successor of a reader comes only when its consumer has expired."""
    expired: int = 0
    """Snapshots that have expired."""
    leased_reads: int = 0
    """How many reads were held, and found all that they needed."""
    repairs: list[FileCheck] = field(default_factory=list)
    """What those found that came to their end."""
    alterations: int = 0
    """Changes of columns that were answered."""
    writer_pause_s: float = 0.0
    """How long a writer waits between two batches, at most."""
    emissions: int = 0
    """Changes that compactions told, as often as somebody checked them."""
    compactions: list[tuple[int, int]] = field(default_factory=list)
    """Of each that was answered: its groups, and how many of them were dropped."""

    def catalog(self) -> Catalog:
        """The SDK as an actor uses it."""
        calls: Any = SimulatedCalls(self.use_cases, self._methods, self.loop, self.scheduler, self.faults)
        if not self.habits.keep_files_on_unknown:
            calls = HastyCalls(calls, self.stores)
        return as_simulated(
            Catalog(
                calls,
                self.stores,
                clock=VirtualClock(self.scheduler),
                rng=self.scheduler.random.random,
                cache_folder=self.cache_folder,
            )
        )

    def auditing_catalog(self) -> Catalog:
        """The SDK without pauses and faults."""
        scheduler = Scheduler(0, on_death=lambda _: None)
        calls = SimulatedCalls(self.use_cases, self._methods, self.loop, scheduler, Faults())
        return as_simulated(Catalog(calls, PlainStores(self.stores)))

    @cached_property
    def _methods(self) -> Mapping[str, Callable[..., Any]]:
        """The use case's method for each name of the metastore's protocol; to find them all takes milliseconds."""
        return find_methods(self.use_cases)

    def history(self) -> list[Snapshot]:
        """Every snapshot there ever was: what is kept in memory forgets none."""
        return list(self.store._state.tables[0].snapshots)

    def finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine of a use case, outside all faults."""
        return self.loop.run_until_complete(work)

    def batch(self, writer: str, identifier: int) -> dict[int, str | None]:
        """What a writer's source holds for a number: values by key, None for a delete; always the same."""
        dice = random.Random(f"{self.seed}/{writer}/{identifier}")
        keys = dice.sample(range(_KEYS), dice.randint(1, 5))
        return {k: None if dice.random() < 0.2 else f"{writer}.{identifier}.{k}" for k in keys}


class HastyCalls:
    """The calls of a client that takes an unknown outcome for a failure, and cleans up behind it."""

    def __init__(self, calls: SimulatedCalls, stores: SimulatedStores) -> None:
        self._calls = calls
        self._stores = stores

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)

    def commit(self, request: CommitRequest) -> Any:
        """Commits; where the outcome is not known, deletes the files."""
        try:
            return self._calls.commit(request)
        except OutcomeUnknown:
            for store in self._stores.plain.values():
                store.delete_many([found.path for found in store.list_objects(f"data/{request.attempt_id}")])
            raise


def write(world: World, writer: str) -> None:
    """Copies a source into the table, going on from where the metastore says it is."""
    table = persistently(world, lambda: world.catalog().table(TABLE))
    progress = persistently(world, lambda: world.catalog().metastore.get_writer_progress(writer, table.uuid))
    number = (progress.last_identifier or 0) + 1
    while number <= world.batches_per_writer:
        _commit_batch(world, table, writer, number)
        world.acknowledged.add((writer, number))
        number += 1
        if world.writer_pause_s:
            world.scheduler.sleep(world.scheduler.random.uniform(0, world.writer_pause_s))


def _commit_batch(world: World, table: Table, writer: str, number: int) -> None:
    data = to_rows(world.batch(writer, number))
    identifier = number
    while True:
        try:
            table.write(data, writer=writer, identifier=identifier, properties={"batch": str(number)})
        except OutcomeUnknown:
            world.scheduler.sleep(1)
            if not world.habits.same_identifier_on_repeat:
                identifier += 1000
        except (Unavailable, CommitConflict) as error:
            if error.effect is not Effect.NONE:
                raise AssertionError("an error that leaves things open must be OutcomeUnknown") from error
            world.scheduler.sleep(1)
        else:
            return


def overwrite(world: World) -> None:
    """Replaces the whole table now and then."""
    table = persistently(world, lambda: world.catalog().table(TABLE))
    for number in (1, 2):
        world.scheduler.sleep(world.scheduler.random.uniform(0.1, 5))
        while True:
            try:
                data = to_rows(world.batch("overwriter", number)).drop_columns("_row_kind")
                table.overwrite(data, writer="overwriter", identifier=number, properties={"batch": str(number)})
            except (OutcomeUnknown, Unavailable, CommitConflict):
                world.scheduler.sleep(1)
            else:
                break


def collect(world: World) -> None:
    """Takes every attempt that is open for abandoned, again and again, and deletes its files."""
    catalog = world.catalog()
    store = world.stores.open(world.auditing_catalog().table(TABLE).location)
    for _ in range(12):
        world.scheduler.sleep(world.scheduler.random.uniform(0.05, 2))
        attempts = sorted({found.path.split("/")[1] for found in store.list_objects("data")})
        for attempt in attempts:
            try:
                if world.habits.abort_before_delete:
                    catalog.metastore.abandon_attempt(attempt)
                elif _is_live(world, attempt):
                    continue
            except LakelogError:
                continue  # committed, or not known: not to be touched
            store.delete_many([found.path for found in store.list_objects(f"data/{attempt}")])


def _is_live(world: World, attempt: str) -> bool:
    """The check of a collector that looks first and deletes later."""
    files = world.auditing_catalog().table(TABLE).files()
    return any(path.split("/")[1] == attempt for path in files.column("path").to_pylist())


def audit(world: World, *, again: bool = True) -> None:
    """Reads snapshots and holds them against a fold of the batches in commit order; notes which batches are there.

    Args:
        world: What is audited.
        again: Reads every snapshot there is; False: those that no audit has read yet.

    Raises:
        AssertionError: Something was lost, doubled, torn or out of order.
    """
    table = world.auditing_catalog().table(TABLE)
    seen: set[tuple[str, int]] = set()
    kept = set(table.snapshots()["id"].to_pylist())
    for snapshot, state in fold_history(world):
        if snapshot.kind is not SnapshotKind.COMPACT and RESTORED not in snapshot.properties:
            work = (snapshot.writer, int(snapshot.properties["batch"]))
            assert work not in seen, f"{work} was applied twice, the second time as snapshot {snapshot.snapshot_id}"
            seen.add(work)
        if snapshot.snapshot_id in kept and (again or snapshot.snapshot_id not in world.audited):
            world.audited.add(snapshot.snapshot_id)
            rows = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
            found = {row["k"]: row["v"] for row in rows}
            assert len(found) == len(rows), f"snapshot {snapshot.snapshot_id} shows a key twice"
            assert found == state, f"snapshot {snapshot.snapshot_id}"
    lost = world.acknowledged - seen
    assert not lost, f"acknowledged and not there: {sorted(lost)}"
    world.applied = seen


def fold_history(world: World) -> Iterator[tuple[Snapshot, dict[int, str]]]:
    """Every snapshot there ever was, also those that have expired, with the state that it must show."""
    state: dict[int, str] = {}
    states: dict[int, dict[int, str]] = {}
    for snapshot in world.history():
        if RESTORED in snapshot.properties:
            state = dict(states[int(snapshot.properties[RESTORED])])
        elif snapshot.kind is not SnapshotKind.COMPACT:
            is_overwrite = snapshot.kind is SnapshotKind.OVERWRITE
            if is_overwrite:
                state = {}
            batch = world.batch(snapshot.writer, int(snapshot.properties["batch"]))
            apply(state, batch, keep_deletes=is_overwrite)
        states[snapshot.snapshot_id] = dict(state)
        yield snapshot, state


def apply(state: dict[int, str], batch: Mapping[int, str | None], *, keep_deletes: bool) -> None:
    """One step of the fold; an overwrite's batch holds inserts only, with NULL as a value."""
    for key, value in batch.items():
        if value is None and not keep_deletes:
            state.pop(key, None)
        else:
            state[key] = value  # type: ignore[assignment]


def audit_now_and_then(world: World, *, again: bool) -> None:
    """Audits while the others are at work; at the end, `simulate` audits all that is kept.

    Args:
        world: What is audited.
        again: Reads old snapshots each time, because they may have expired at the end.
    """
    for _ in range(5):
        world.scheduler.sleep(world.scheduler.random.uniform(0.1, 10))
        audit(world, again=again)


def to_rows(batch: Mapping[int, str | None]) -> pa.Table:
    """A batch as rows with kinds."""
    kinds = ["-D" if value is None else "+I" for value in batch.values()]
    return pa.table(
        {"k": pa.array(list(batch), pa.int64()), "v": pa.array(list(batch.values()), pa.string()), "_row_kind": kinds}
    )


def persistently(world: World, call: Any) -> Any:
    while True:
        try:
            return call()
        except Unavailable:
            world.scheduler.sleep(1)
