"""Waits until no changelog of a range is pending, as bounded reads of changes do (semantics 3.5)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Final, TypeVar

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import InvalidArgument, Unavailable
from lakelog.format.tables.snapshot import ChangelogState, Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.progress.tracking import track

DEFAULT_TIMEOUT_S: Final = 60.0
"""A running compactor attaches a changelog within a second of the commit, and thousands of waiting ones in a minute."""

CHANGELOG_OPEN: Final = "CHANGELOG_OPEN"

T = TypeVar("T")


def check_complete(table: TableInfo, snapshots: tuple[Snapshot, ...]) -> None:
    """Checks that no changelog of a range is pending. Pure.

    Raises:
        Unavailable: A changelog is pending; named, with reason `CHANGELOG_OPEN`.
    """
    first = next((each for each in snapshots if each.changelog is ChangelogState.PENDING), None)
    if first is not None:
        raise _is_pending(table, first.snapshot_id, "")


def check_timeout(timeout_s: float) -> float:
    """Returns the time to wait; raises InvalidArgument if it is not a duration."""
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= 1e6:
        raise InvalidArgument(
            f"timeout={timeout_s!r:.80} is no time to wait: give seconds, 0 or more.", metadata={"field": "timeout"}
        )
    return float(timeout_s)


def plan_when_complete(
    metastore: Metastore, table: TableInfo, until: int, timeout_s: float, plan: Callable[[], T]
) -> T:
    """Plans a read of changes; if a changelog is pending, plans again once it is attached. Blocks.

    A complete changelog stays complete, so the second plan finds none pending.

    Args:
        metastore: Reports when changelogs are attached.
        table: The table.
        until: The last snapshot of the read.
        timeout_s: How long to wait at most; 0: not at all.
        plan: Plans the read; raises Unavailable with reason `CHANGELOG_OPEN` if a changelog is pending.

    Raises:
        Unavailable: A changelog was still pending at the end; names the snapshot.
    """
    try:
        return plan()
    except Unavailable as error:
        if error.reason != CHANGELOG_OPEN:
            raise
    with track(f"waiting for the changelogs of {table.name}"):
        _wait_until_complete(metastore, table, until, timeout_s)
    return plan()


def check_reached(metastore: Metastore, table: TableInfo, until: int) -> None:
    """Checks that a stream can show a table up to a snapshot; asks the metastore.

    Raises:
        Unavailable: A changelog up to it is pending; named.
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
