"""Applies a publisher's report to the known state of a log (reliability R3). Pure.

1. Reported facts stay: the position and the offsets never go back, so a report that arrives twice changes nothing.
2. A snapshot is identified by its id and its uuid. A publisher that reports another uuid publishes another history, and
   must stop.
3. The start of a generation is final once anything of it is published: readers have begun there.
4. A snapshot that adds nothing to the log ends where the snapshot before it ends, even if no publisher reported that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from lakelog.errors import HistoryDiverged
from lakelog.format.log.state import RESTART_COMMAND, SNAPSHOT_UNKNOWN, PublishReport, SnapshotOffsets
from lakelog.format.tables.snapshot import LogContent, Snapshot


@dataclass(frozen=True)
class Progress:
    """How far a log is published.

    Args:
        snapshot_id: Everything up to it is published.
        snapshot_uuid: Its uuid; empty if the log begins after it.
        offsets: Where it ends; empty: not known.
        next_index: Published rows of the next snapshot; 0: none.
        next_uuid: That snapshot's uuid; empty with 0 rows.
    """

    snapshot_id: int
    snapshot_uuid: str = ""
    offsets: tuple[int, ...] = ()
    next_index: int = 0
    next_uuid: str = ""


def apply_report(
    table: str, known: Progress, report: PublishReport, uuids: Mapping[int, str]
) -> tuple[Progress, list[SnapshotOffsets]]:
    """Returns the state after a report, and where further snapshots end.

    Args:
        table: Its name, for messages.
        known: The state before it.
        report: The publisher's report.
        uuids: Uuids of the reported snapshots, and of the next one, that the table has.

    Raises:
        HistoryDiverged: The table has no such snapshot, or another one with this id.
    """
    # Snapshots of earlier reports may have expired.
    further = [each for each in report.snapshots if each.snapshot_id > known.snapshot_id]
    for each in further:
        _check_uuid(table, each.snapshot_id, each.snapshot_uuid, uuids)
    reported = _never_back(known.offsets, further)
    last = reported[-1] if reported else None
    snapshot_id = known.snapshot_id if last is None else last.snapshot_id
    next_index, next_uuid = (known.next_index, known.next_uuid) if last is None else (0, "")
    behind = report.snapshots[-1].snapshot_id if report.snapshots else known.snapshot_id
    is_late = behind < known.snapshot_id or report.next_uuid == known.snapshot_uuid
    if report.next_index and not is_late:
        _check_uuid(table, snapshot_id + 1, report.next_uuid, uuids)
        next_index, next_uuid = max(next_index, report.next_index), report.next_uuid
    progress = Progress(
        snapshot_id,
        known.snapshot_uuid if last is None else last.snapshot_uuid,
        known.offsets if last is None else last.offsets,
        next_index,
        next_uuid,
    )
    return progress, reported


def move_beginning(
    table: str, known: Progress, starts_after: int, beginning: tuple[int, ...], begins: tuple[int, ...]
) -> tuple[int, ...]:
    """Returns where a generation begins after a report of it.

    Args:
        table: Its name, for messages.
        known: The state before the report.
        starts_after: The generation begins after this snapshot.
        beginning: Its known beginning; empty: the beginning of the topic.
        begins: The publisher's report.

    Raises:
        HistoryDiverged: Some of it is published already, and it began elsewhere.
    """
    moved = tuple(max(pair) for pair in zip_longest(beginning, begins, fillvalue=0))
    if moved != beginning and any(moved) and (known.snapshot_id, known.next_index) != (starts_after, 0):
        raise HistoryDiverged(
            f"The log of {table} begins at the offsets {list(beginning)} and is published up to snapshot "
            f"{known.snapshot_id}, but is said to begin at {list(begins)}. Find out who else publishes it.",
            reason="LOG_BEGUN",
            metadata={"table": table, "snapshot_id": str(known.snapshot_id)},
        )
    return moved if any(moved) else ()


def carry_over(
    before: SnapshotOffsets | None, snapshots: Sequence[Snapshot], reported: Mapping[int, SnapshotOffsets]
) -> list[SnapshotOffsets]:
    """Returns where snapshots end in the log, as reported or carried over; leaves out snapshots with an unknown end.

    The end of a snapshot with rows is never guessed. With any end between the reported ends around it, readers would
    miss rows or see them twice.

    Args:
        before: The end of the snapshot before the first one; None: not known.
        snapshots: The snapshots in rising order. No end is carried over a gap.
        reported: The reported ends, by snapshot.
    """
    found = []
    for each in snapshots:
        end = reported.get(each.snapshot_id)
        if end is None and before is not None and _ends_with(before, each):
            end = SnapshotOffsets(each.snapshot_id, each.snapshot_uuid, before.offsets)
        if end is not None:
            found.append(end)
        before = end
    return found


def _ends_with(before: SnapshotOffsets, snapshot: Snapshot) -> bool:
    """Whether a snapshot ends in the log where the snapshot right before it ends."""
    return snapshot.log is LogContent.NONE and before.snapshot_id == snapshot.snapshot_id - 1


def _never_back(before: tuple[int, ...], snapshots: Sequence[SnapshotOffsets]) -> list[SnapshotOffsets]:
    """Snapshots whose offsets are not below those of the previous one; new partitions have no previous offsets."""
    reported = []
    for each in snapshots:
        before = tuple(max(pair) for pair in zip_longest(before, each.offsets, fillvalue=0))
        reported.append(SnapshotOffsets(each.snapshot_id, each.snapshot_uuid, before))
    return reported


def _check_uuid(table: str, snapshot_id: int, uuid: str, uuids: Mapping[int, str]) -> None:
    known = uuids.get(snapshot_id)
    if known == uuid:
        return
    there = "there is no such snapshot" if known is None else f"that snapshot is {known}"
    raise HistoryDiverged(
        f"The log of {table} was published up to snapshot {snapshot_id} ({uuid}), but {there}: the metastore was "
        f"restored to an earlier state. Nothing more is published before `{RESTART_COMMAND} {table}`.",
        reason=SNAPSHOT_UNKNOWN,
        metadata={"table": table, "snapshot_id": str(snapshot_id), "uuid": uuid, "known_uuid": known or ""},
    )
