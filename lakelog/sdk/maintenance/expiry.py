"""Expiry of a table's snapshots at a user's request, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakelog.annotations import TimeLike
from lakelog.arguments import check_flag, to_epoch_ms
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.retention.expiry import ExpiryStep, SnapshotLease
from lakelog.format.tables.table import TableInfo
from lakelog.progress.tracking import track

MAX_RETAINED: Final = 2**31 - 1


@dataclass(frozen=True)
class ExpiryResult:
    """What expired, or would.

    Args:
        table: The table's full name.
        dry_run: Whether nothing was changed.
        first_kept: The earliest snapshot that can still be read, apart from tagged ones; None: the table has none.
        snapshots: How many snapshots can no longer be read; tagged ones still can.
        changelogs: How many snapshots lost their changes as well; this may include snapshots that expired earlier.
        files: How many files nothing refers to any more; a compactor deletes them. In a dry run this is an upper bound
            if a file belongs to several snapshots.
        size_bytes: The size of the data and changelog files among them.
        tagged: Expired snapshots that tags or readers retain, rising.
        held_by: The leases on snapshots that would have expired otherwise, the earliest first.
    """

    table: str
    dry_run: bool
    first_kept: int | None
    snapshots: int
    changelogs: int
    files: int
    size_bytes: int
    tagged: tuple[int, ...] = ()
    held_by: tuple[SnapshotLease, ...] = ()

    def to_arrow(self) -> pa.Table:
        """One row with the columns first_kept, snapshots, changelogs, files, bytes, tagged and held_by (texts)."""
        return pa.table(
            {
                "first_kept": pa.array([self.first_kept], pa.int64()),
                "snapshots": pa.array([self.snapshots], pa.int64()),
                "changelogs": pa.array([self.changelogs], pa.int64()),
                "files": pa.array([self.files], pa.int64()),
                "bytes": pa.array([self.size_bytes], pa.int64()),
                "tagged": pa.array([list(self.tagged)], pa.list_(pa.int64())),
                "held_by": pa.array(
                    [[describe_snapshot_lease(lease) for lease in self.held_by]], pa.list_(pa.string())
                ),
            }
        )


def describe_snapshot_lease(lease: SnapshotLease) -> str:
    """Describes for people what needs which snapshot. Pure."""
    who = "a changelog to be made" if lease.kind.value == "changelog" else f"{lease.kind.value} '{lease.holder}'"
    return f"{who} needs snapshot {lease.snapshot_id}" if lease.snapshot_id else f"{who} begins with the first snapshot"


def expire_snapshots(
    metastore: Metastore,
    info: TableInfo,
    *,
    older_than: TimeLike | None = None,
    retain_last: int | None = None,
    dry_run: bool = False,
) -> ExpiryResult:
    """Expires a table's snapshots step by step; arguments as of `Table.expire_snapshots`; blocks."""
    check_flag(dry_run, "dry_run")
    older_than_ms = None if older_than is None else to_epoch_ms(older_than, "older_than")
    _check_retain_last(retain_last)
    steps: list[ExpiryStep] = []
    with track(f"expiring snapshots of {info.name}", "snapshots") as work:
        while not steps or not steps[-1].is_done:
            steps.append(
                metastore.expire_snapshots(
                    info.table_uuid, older_than_ms=older_than_ms, retain_last=retain_last, dry_run=bool(dry_run)
                )
            )
            work.done = steps[-1].earliest - steps[0].earliest_before
    first, last = steps[0], steps[-1]
    gone = range(first.earliest_before, last.earliest)
    tagged = [each for each in last.named if each in gone]
    return ExpiryResult(
        table=str(info.name),
        dry_run=bool(dry_run),
        first_kept=last.earliest or None,
        snapshots=len(gone) - len(tagged),
        changelogs=last.earliest_change - first.earliest_change_before,
        files=sum(step.files for step in steps),
        size_bytes=sum(step.size_bytes for step in steps),
        tagged=last.named,
        held_by=last.held_by,
    )


def _check_retain_last(value: Any) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_RETAINED):
        raise InvalidArgument(
            f"retain_last={value!r:.80} is no number of snapshots to keep: give 1 or more, since the newest one is "
            "always kept.",
            metadata={"field": "retain_last", "value": f"{value!r:.80}"},
        )
