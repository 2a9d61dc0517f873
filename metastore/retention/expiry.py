"""Expiry of snapshots and changelogs: moves the start of what a table retains, and clears away what is older.

Objectives, which pull against each other: no read loses what it reads (reliability C7); no live file is ever deleted,
however short the delays are (C4); commits wait little; nothing is left forever. So:

1. The start moves only under the head's lock, as commits and snapshot leases do, and never past a snapshot lease.
2. Entries are deleted afterwards in bounded steps; no one can request them any more. The transaction that deletes the
   last entry of a file also decides that the file goes, and only records it (`expired_file`). The executor deletes the
   files afterwards, and then takes them off the list. Wherever it is killed, the step is repeated.
3. Entries that a plan from chunks would still look up stay until the chunks know that the files are gone.
4. Results of commits stay forever (C2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.format.commit.facts import TableHead
from lakelog.format.jobs.job import EXPIRE, DueJob
from lakelog.format.retention.expiry import (
    ExpiryHorizon,
    ExpiryPlan,
    ExpiryStep,
    OverdueSnapshots,
    Retained,
    Retention,
    count_overdue,
    find_bound,
    plan_expiry,
    to_retention,
)
from lakelog.options.declared.tables import WRITE_ONLY
from lakelog.options.values import TableOptions

from ..jobs.due_work import TableWork
from ..jobs.requests import make_due
from ..plans.packing import Packer
from ..store.limits import BOUNDS, MAX_INT64
from ..store.retention import Clearing, ExpiryState
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_number, check_text, check_uuid, invalid
from ..tables.lookup import find_head, lock_head
from .snapshot_leases import load_named, load_options, load_snapshot_leases

MAX_ENTRIES: Final = 10_000
"""Entries of one sort that a step deletes: commits to the table wait some tenths of a second for it."""

MAX_EXPIRED: Final = 10_000
"""Files that are listed or forgotten at once."""

_SHORTEST_REST_MS: Final = 1_000
_LONGEST_REST_MS: Final = 60_000
"""Snapshots that expire shortly after each other go together: within a tenth of their retention, and within these
bounds."""

_SOON_MS: Final = 5_000
"""How soon an expiry that waits for other work is checked again."""

_LONGEST_RETRY_MS: Final = 6 * 3_600_000
"""The longest pause before a file that cannot be deleted is tried again."""

_LEASED_RECHECK_MS: Final = 300_000
"""How late the end of a snapshot lease is found out if it ends without a notice."""


@dataclass(frozen=True)
class _Found:
    """What is known of a table when its expiry is planned."""

    head: TableHead
    horizon: ExpiryHorizon
    plan: ExpiryPlan
    state: ExpiryState
    named: tuple[int, ...]


class Expiry:
    """The use cases of expiry and snapshot leases. Only the store's clock judges ages and deadlines.

    Args:
        store: Where everything is stored.
        packer: Brings a table's chunks up to date where they prevent entries from being deleted.
        jobs_due: Called when a job was made due.
    """

    def __init__(self, store: Store, packer: Packer, jobs_due: Callable[[], None]) -> None:
        self._store = store
        self._packer = packer
        self._jobs_due = jobs_due

    async def expire_snapshots(
        self,
        table_uuid: str,
        *,
        older_than_ms: int | None = None,
        retain_last: int | None = None,
        dry_run: bool = False,
        by_itself: bool = False,
    ) -> ExpiryStep:
        check_uuid("table_uuid", table_uuid)
        if older_than_ms is not None:
            check_number("older_than_ms", older_than_ms, *BOUNDS["ExpireSnapshotsRequest.older_than_ms"])
        if retain_last is not None:
            check_number("retain_last", retain_last, 1, 2**31 - 1)
        requested = None if (older_than_ms, retain_last) == (None, None) else (older_than_ms, retain_last)
        if dry_run:
            return await run_transaction(self._store, lambda tx: _measure(tx, table_uuid, requested, by_itself))
        step, waits = await run_transaction(self._store, lambda tx: _expire(tx, table_uuid, requested, by_itself))
        if waits and step.is_done:
            # A packing that runs at this moment ends soon; then the job that is due again finds the rest.
            step = replace(step, is_done=not await self._packer.pack(table_uuid))
        if step.files and not by_itself:
            self._jobs_due()
        return step

    async def list_expired_files(self, table_uuid: str, limit: int, after: str = "") -> list[str]:
        check_uuid("table_uuid", table_uuid)
        check_number("limit", limit, 1, MAX_EXPIRED)
        check_text("after", after, 0, 1024)

        async def load(tx: Transaction) -> list[str]:
            return await tx.list_expired((await find_head(tx, table_uuid)).table_id, limit, after)

        return await run_transaction(self._store, load)

    async def forget_expired_files(self, table_uuid: str, paths: Sequence[str]) -> None:
        check_uuid("table_uuid", table_uuid)
        if not 1 <= len(paths) <= MAX_EXPIRED:
            raise invalid("paths", f"{len(paths)} paths", f"Give 1 to {MAX_EXPIRED} at once.")
        for path in paths:
            check_text("paths", path, 1, 1024)

        async def forget(tx: Transaction) -> None:
            await tx.forget_expired((await find_head(tx, table_uuid)).table_id, paths)

        await run_transaction(self._store, forget)


async def list_overdue(tx: Transaction, head: TableHead) -> list[OverdueSnapshots]:
    """The snapshots of a table that would have expired if no one retained them, the lowest first."""
    found = await _find(tx, head, None, by_itself=True)
    overdue = []
    for lease in found.plan.held_by:
        first = max(lease.snapshot_id, head.earliest_change_id)
        oldest = await tx.list_snapshots(head.table_id, first - 1, first, 1)
        # It may have expired between two reads.
        if oldest:
            count = count_overdue(head, found.horizon, lease)
            overdue.append(OverdueSnapshots(head.name, lease, count, oldest[0].committed_at_ms))
    return overdue


async def plan_expiry_work(tx: Transaction, work: TableWork) -> list[DueJob]:
    """The job that expires snapshots of a table, due when the first of them does; see `metastore.jobs.due_work`."""
    head = work.head
    options = TableOptions(work.table.info.options)
    rest_ms = await _find_rest(tx, head, options)
    return [] if rest_ms is None else [DueJob(head.table_id, EXPIRE, delay_ms=rest_ms)]


async def _find(
    tx: Transaction, head: TableHead, requested: tuple[int | None, int | None] | None, by_itself: bool, **bounds: int
) -> _Found:
    options = await load_options(tx, head)
    now_ms = await tx.now_ms()
    horizon = ExpiryHorizon(head.earliest_snapshot_id, head.earliest_change_id)
    if not (by_itself and options.get(WRITE_ONLY)):
        horizon = await _find_horizon(tx, head, to_retention(options), requested, now_ms)
    leases = await load_snapshot_leases(tx, head, options, now_ms)
    plan = plan_expiry(head, horizon, leases, **bounds)
    named = [each for each in await load_named(tx, head) if each < plan.earliest]
    return _Found(head, horizon, plan, await tx.load_expiry(head.table_id), tuple(sorted(named)))


async def _find_horizon(
    tx: Transaction,
    head: TableHead,
    retention: Retention,
    requested: tuple[int | None, int | None] | None,
    now_ms: int,
) -> ExpiryHorizon:
    if not head.latest_snapshot_id:
        return ExpiryHorizon(head.earliest_snapshot_id, head.earliest_change_id)
    retained = retention.snapshots
    cutoff_ms = now_ms - retained.time_ms
    if requested is not None:
        # A time replaces the table's age and its largest number of snapshots, not its smallest number.
        older_than_ms, retain_last = requested
        if older_than_ms is not None:
            cutoff_ms, retained = older_than_ms, replace(retained, most=None)
        if retain_last is not None:
            retained = replace(retained, least=retain_last)
    states = find_bound(head, retained, await _find_newest(tx, head, cutoff_ms))
    if retention.changelogs is None:
        return ExpiryHorizon(states, states)
    newest = await _find_newest(tx, head, now_ms - retention.changelogs.time_ms)
    return ExpiryHorizon(states, min(states, find_bound(head, retention.changelogs, newest)))


async def _find_newest(tx: Transaction, head: TableHead, time_ms: int) -> int:
    found = await tx.find_snapshot_at(head.table_id, time_ms)
    return 0 if found is None else found.snapshot_id


async def _measure(
    tx: Transaction, table_uuid: str, requested: tuple[int | None, int | None] | None, by_itself: bool
) -> ExpiryStep:
    head = await find_head(tx, table_uuid)
    found = await _find(tx, head, requested, by_itself, limit=head.latest_snapshot_id)
    clearing = _to_clearing(found, found.plan.earliest, found.plan.earliest_change)
    cleared = await tx.measure_expired(clearing)
    return _to_step(found, cleared.files, cleared.size_bytes, is_done=True)


async def _expire(
    tx: Transaction, table_uuid: str, requested: tuple[int | None, int | None] | None, by_itself: bool
) -> tuple[ExpiryStep, bool]:
    """A step, and whether it waits for chunks to be packed."""
    head = await lock_head(tx, table_uuid)
    found = await _find(tx, head, requested, by_itself)
    plan, table_id = found.plan, head.table_id
    if (plan.earliest, plan.earliest_change) != (head.earliest_snapshot_id, head.earliest_change_id):
        await tx.set_earliest(table_id, plan.earliest, plan.earliest_change)
    # SUBTLE: no one packs the table meanwhile, or its chunks would never learn what was removed since.
    if not await tx.lock_packing(table_id):
        return _to_step(found, 0, 0, is_done=not plan.is_cut), True
    packed = await tx.find_chunks(table_id)
    until = min(plan.earliest, packed.packed_until) if packed.chunks else plan.earliest
    rows_before = min(plan.earliest_change, packed.packed_until) if packed.chunks else plan.earliest_change
    clearing = _to_clearing(found, until, rows_before)
    cleared = await tx.clear_expired(clearing)
    reached = max(until, clearing.after) if cleared.is_done else clearing.after
    state = ExpiryState(reached, found.named)
    if state != found.state:
        await tx.put_expiry(table_id, state)
    if cleared.files and not by_itself:
        await make_due(tx, table_uuid, [DueJob(table_id, EXPIRE)])
    waits = until < plan.earliest
    return _to_step(found, cleared.files, cleared.size_bytes, is_done=cleared.is_done and not plan.is_cut), waits


def _to_clearing(found: _Found, until: int, rows_before: int) -> Clearing:
    # A snapshot that is no longer named is cleared like others, so clearing starts again from it.
    lost = [each for each in found.state.kept if each not in found.named]
    return Clearing(
        table_id=found.head.table_id,
        after=min([found.state.cleared_until, *lost]),
        until=until,
        named=found.named,
        rows_before=rows_before,
        changes_before=found.plan.earliest_change,
        limit=MAX_ENTRIES,
    )


def _to_step(found: _Found, files: int, size_bytes: int, *, is_done: bool) -> ExpiryStep:
    head, plan = found.head, found.plan
    if not head.latest_snapshot_id:
        return ExpiryStep()
    return ExpiryStep(
        head.earliest_snapshot_id,
        plan.earliest,
        head.earliest_change_id,
        plan.earliest_change,
        files,
        # The sum over the history of a table has no bound.
        min(size_bytes, MAX_INT64),
        plan.held_by,
        found.named,
        is_done,
    )


async def _find_rest(tx: Transaction, head: TableHead, options: TableOptions) -> int | None:
    """In how many milliseconds there is something to do; None: not before the table changes."""
    state = await tx.load_expiry(head.table_id)
    if state.cleared_until < _last_expired(head):
        return _SOON_MS
    rests = [await _find_retry(tx, head), await _find_rest_of_snapshots(tx, head, options, state)]
    return min((rest for rest in rests if rest is not None), default=None)


async def _find_retry(tx: Transaction, head: TableHead) -> int | None:
    """Milliseconds until files are deleted again: as long as they have been listed; None: there are none."""
    age_ms = await tx.find_expired_age(head.table_id)
    return None if age_ms is None else min(max(age_ms, _SOON_MS), _LONGEST_RETRY_MS)


async def _find_rest_of_snapshots(
    tx: Transaction, head: TableHead, options: TableOptions, state: ExpiryState
) -> int | None:
    """In how many milliseconds a snapshot expires; None: not before the table changes."""
    if state.kept and not (await load_named(tx, head)).issuperset(state.kept):
        return 0
    if options.get(WRITE_ONLY) or not head.latest_snapshot_id:
        return None
    retention = to_retention(options)
    now_ms = await tx.now_ms()
    leases = await load_snapshot_leases(tx, head, options, now_ms)
    rests = [await _find_rest_of(tx, head, retention.snapshots, head.earliest_snapshot_id, now_ms)]
    if retention.changelogs is not None:
        rests.append(await _find_rest_of(tx, head, retention.changelogs, head.earliest_change_id, now_ms))
    known = [rest for rest in rests if rest is not None]
    if not known:
        return None
    held = plan_expiry(head, ExpiryHorizon(head.earliest_snapshot_id + 1, head.earliest_change_id + 1), leases).held_by
    return max(min(known), _LEASED_RECHECK_MS) if held else min(known)


def _last_expired(head: TableHead) -> int:
    """The snapshot up to which removed files are to be cleared away."""
    return head.earliest_snapshot_id if head.earliest_snapshot_id > 1 else 0


async def _find_rest_of(tx: Transaction, head: TableHead, retained: Retained, first: int, now_ms: int) -> int | None:
    """In how many milliseconds the first retained snapshot expires; None: never, as long as none is added."""
    count = head.latest_snapshot_id - first + 1
    if count <= retained.least:
        return None
    least_ms = min(max(retained.time_ms // 10, _SHORTEST_REST_MS), _LONGEST_REST_MS)
    if retained.most is not None and count > retained.most:
        return least_ms
    following = await tx.list_snapshots(head.table_id, first, first + 1, 1)
    if not following:
        # It expired since the head was read.
        return least_ms
    return max(following[0].committed_at_ms + retained.time_ms - now_ms, least_ms)
