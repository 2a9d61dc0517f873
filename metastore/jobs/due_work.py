"""What commits have made due, found without delaying them: compactions, expiry and other jobs of a table.

Objectives, which pull against each other: no commit waits for planning or writes a byte more for it; no process scans
all tables repeatedly; nothing is forgotten. So a commit only notes its table in memory. A later step finds out what the
table's snapshots since the last time have made due, and makes jobs of it. The table's `work_cursor` stores how far that
went: what a metastore forgot when it died is after the cursor, and the next start, or another metastore, finds it.

Planners, functions of their own, say what is due when. They read, and may take their time. Only after that the head is
locked, as commits lock it, the jobs are made due, and the cursor moves. Planning the same snapshots again is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from lakelog.clock import Clock
from lakelog.errors import OutcomeUnknown, Unavailable
from lakelog.format.commit.facts import TableHead
from lakelog.format.jobs.job import DueJob

from ..alarm import Alarm
from ..store.records import TableRecord, WorkCursor
from ..store.transaction import Store, Transaction, run_transaction
from .requests import make_due

log = logging.getLogger(__name__)

RECOVER_EVERY_S: Final = 30.0
"""How late a table whose commit was forgotten is found at worst; the search is one statement over the heads."""

_TABLES_A_POLL: Final = 1_000
_SNAPSHOTS_A_STEP: Final = 1_000


@dataclass(frozen=True)
class TableWork:
    """A table whose work is planned.

    Args:
        table: Its name, schema, keys and options.
        head: The head when planning began, not locked.
        after: Everything up to this snapshot was planned before.
        until: The snapshot to plan up to; the same as `after` where only time has passed, a job has ended or an option
            has changed.
    """

    table: TableRecord
    head: TableHead
    after: int
    until: int


class WorkPlanner(Protocol):
    """Says what is due for a table. It only reads, and its cost may depend only on what the snapshots changed."""

    async def __call__(self, tx: Transaction, work: TableWork) -> Sequence[DueJob]:
        """The jobs that are due, at once or after their delays. Jobs that already exist do no harm."""
        ...


class DueWork:
    """Finds work that is due, and makes jobs of it. Runs on one event loop.

    Args:
        store: Where everything is stored.
        clock: Measures the time between two scans of all tables.
        planners: They say what is due; each table is shown to all of them.
        jobs_due: Called when jobs were made due.
    """

    def __init__(
        self, store: Store, clock: Clock, planners: Sequence[WorkPlanner], jobs_due: Callable[[], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._planners = tuple(planners)
        self._jobs_due = jobs_due
        self._touched: dict[str, None] = {}
        self._next_check_s = clock.monotonic_s()
        self._alarm = Alarm(clock)

    def touch(self, table_uuid: str) -> None:
        """Has a table planned by the next step."""
        self._touched[table_uuid] = None
        self._alarm.notify()

    async def wait(self) -> None:
        """Returns once a table was touched, or it is time to search for forgotten ones."""
        await self._alarm.wait()

    async def step(self) -> int:
        """Plans the touched tables, and now and then the forgotten ones; returns how many it planned.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost; a later step plans the touched tables.
        """
        if not self._planners:
            self._touched.clear()
            self._alarm.set(RECOVER_EVERY_S)
            return 0
        if self._clock.monotonic_s() >= self._next_check_s:
            forgotten = await run_transaction(self._store, lambda tx: tx.list_unplanned(_TABLES_A_POLL))
            self._touched.update(dict.fromkeys(forgotten))
            self._next_check_s = self._clock.monotonic_s() + RECOVER_EVERY_S
        self._alarm.set(self._next_check_s - self._clock.monotonic_s())
        planned = 0
        for table_uuid in tuple(self._touched):
            if table_uuid not in self._touched:
                # A request has caused its planning meanwhile.
                continue
            # Before it is planned: a commit that comes meanwhile touches it again.
            del self._touched[table_uuid]
            try:
                planned += await self._plan(table_uuid)
            except (Unavailable, OutcomeUnknown):
                self.touch(table_uuid)
                raise
            except Exception:
                # One table must not keep the others from being planned; this one is found again by its cursor.
                log.exception("what is due at table %s could not be planned", table_uuid)
        return planned

    async def plan_now(self, table_uuid: str) -> None:
        """Plans a table up to its newest snapshot, unless another metastore is doing so.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost.
        """
        self.touch(table_uuid)
        has_planned = True
        while has_planned and table_uuid in self._touched:
            del self._touched[table_uuid]
            has_planned = await self._plan(table_uuid)

    async def _plan(self, table_uuid: str) -> bool:
        found = await run_transaction(self._store, lambda tx: self._plan_once(tx, table_uuid))
        if found is None:
            return False
        jobs, is_stale = found
        if is_stale:
            self.touch(table_uuid)
        if jobs:
            self._jobs_due()
        return True

    async def _plan_once(self, tx: Transaction, table_uuid: str) -> tuple[int, bool] | None:
        """How many jobs were due, and whether snapshots are left; None: dropped, or planned by another metastore."""
        known = (await tx.find_heads([table_uuid])).get(table_uuid)
        if known is None:
            return None
        cursor = await tx.lock_work_cursor(known.table_id)
        if cursor is None:
            # It may have read before the commit that is to be planned here.
            self.touch(table_uuid)
            return None
        # SUBTLE: read after the cursor. All requests up to the cursor count as heard, so the planner must see their
        # cause, for instance an altered option.
        table = await tx.find_table_by_uuid(table_uuid)
        head = (await tx.find_heads([table_uuid])).get(table_uuid)
        if table is None or head is None:
            return None
        after = cursor.planned_until
        until = min(max(head.latest_snapshot_id, after), after + _SNAPSHOTS_A_STEP)
        work = TableWork(table, head, after, until)
        due = [job for planner in self._planners for job in await planner(tx, work)]
        # Locks the head, before the cursor is written.
        await make_due(tx, table_uuid, due)
        await tx.move_work_cursor(head.table_id, WorkCursor(until, cursor.requested))
        return len(due), until < head.latest_snapshot_id
