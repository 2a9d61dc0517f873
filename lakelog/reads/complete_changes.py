"""Waiting until no changelog of a range is open, as bounded reads of changes do (semantics 3.5)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Final, TypeVar

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import InvalidArgument, Unavailable
from lakelog.format.tables.snapshot import ChangelogState, Snapshot
from lakelog.format.tables.table import TableInfo

DEFAULT_TIMEOUT_S: Final = 60.0
"""A compactor that runs attaches a changelog within a second of the commit, and thousands that wait in a minute."""

CHANGELOG_OPEN: Final = "CHANGELOG_OPEN"

T = TypeVar("T")


def check_complete(table: TableInfo, snapshots: tuple[Snapshot, ...]) -> None:
    """Check that no changelog of a range is open. Pure.

    Raises:
        Unavailable: One is; named, with reason `CHANGELOG_OPEN`.
    """
    first = next((each for each in snapshots if each.changelog is ChangelogState.PENDING), None)
    if first is not None:
        raise _is_pending(table, first.snapshot_id, "")


def check_timeout(timeout_s: float) -> float:
    """Raises InvalidArgument for what is no time to wait; returns it."""
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= 1e6:
        raise InvalidArgument(
            f"timeout={timeout_s!r:.80} is no time to wait: give seconds, 0 or more.", metadata={"field": "timeout"}
        )
    return float(timeout_s)


def plan_when_complete(
    metastore: Metastore, table: TableInfo, until: int, timeout_s: float, plan: Callable[[], T]
) -> T:
    """Plans a read of changes; where a changelog is open, again once it was attached. Blocks.

    What was complete stays so, so that a second plan finds no open one.

    Args:
        metastore: Who tells when changelogs are attached.
        table: The table.
        until: The last snapshot of the read.
        timeout_s: How long to wait at most; 0: not at all.
        plan: Plans the read; raises Unavailable with reason `CHANGELOG_OPEN` where it cannot yet.

    Raises:
        Unavailable: A changelog was still open at the end; names the snapshot.
    """
    try:
        return plan()
    except Unavailable as error:
        if error.reason != CHANGELOG_OPEN:
            raise
    _wait_until_complete(metastore, table, until, timeout_s)
    return plan()


def check_reached(metastore: Metastore, table: TableInfo, until: int) -> None:
    """Check that a stream can show a table up to a snapshot; asks the metastore.

    Raises:
        Unavailable: A changelog is open up to it; named.
    """
    reached = metastore.list_snapshots(table.table_uuid, limit=1).complete_until
    if reached < until:
        raise _is_pending(table, reached + 1, "")


def _wait_until_complete(metastore: Metastore, table: TableInfo, until: int, timeout_s: float) -> None:
    page = metastore.list_snapshots(table.table_uuid, limit=1)
    reached = page.complete_until
    if reached < until and timeout_s > 0:
        with closing(metastore.watch([WatchPosition(table.table_uuid, reached)], complete=True)) as watch:
            timer = threading.Timer(timeout_s, watch.close)
            timer.daemon = True
            timer.start()
            try:
                for event in watch:
                    reached = event.snapshots[-1].snapshot_id if event.snapshots else reached
                    if reached >= until or event.dropped:
                        return
            finally:
                timer.cancel()
        reached = metastore.list_snapshots(table.table_uuid, limit=1).complete_until
    if reached < until:
        raise _is_pending(table, reached + 1, f" after {timeout_s:g} s")


def _is_pending(table: TableInfo, snapshot_id: int, waited: str) -> Unavailable:
    return Unavailable(
        f"Snapshot {snapshot_id} of {table.name} still waits for a compactor{waited}, which makes its changelog "
        "('lookup-wait' = false or 'write-only' = true). `lakelog jobs` tells why; start a compactor where none runs, "
        "wait longer, or read the rows as they were written.",
        reason=CHANGELOG_OPEN,
        metadata={"table": str(table.name), "snapshot_id": str(snapshot_id)},
    )
