"""Compares what writers did with what readers saw. Pure: it does not know how either was recorded.

Every value is unique over the whole history, so each value in a table shows which write it came from. A write is a
commit of values to one or more tables. Writers number theirs, and a repeated write keeps its number.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["acknowledged", "refused", "unknown"]


@dataclass(frozen=True)
class Write:
    """What a writer did.

    Args:
        writer: Its name.
        identifier: The writer's number of this write.
        values: What it wrote, by table.
        outcome: The last answer; `refused` means that certainly nothing happened; if the writer died before an answer,
            it is `unknown`.
        began_s: When the writer first sent it, on a clock that all writers share.
        ended_s: When the last answer came; None: never.
    """

    writer: str
    identifier: int
    values: Mapping[str, tuple[str, ...]]
    outcome: Outcome
    began_s: float = 0.0
    ended_s: float | None = None


@dataclass(frozen=True)
class SeenSnapshot:
    """What a snapshot added, as a reader found it."""

    table: str
    snapshot_id: int
    values: tuple[str, ...]


class Kind(enum.Enum):
    """What can be wrong with a history."""

    LOST = "an acknowledged value is not there"
    DUPLICATE = "a value is there twice"
    ABORTED_READ = "a value is there whose write was refused"
    TORN = "a part of a write is there and another part is not"
    OUT_OF_ORDER = "a write took effect before one that had to come first"
    PHANTOM = "a value is there that nobody wrote"
    GAP = "the numbers of a table's snapshots are not one after the other"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    kind: Kind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.name}: {self.kind.value}: {self.detail}"


def check_history(writes: Sequence[Write], seen: Sequence[SeenSnapshot]) -> list[Finding]:
    """Finds all violations in a history.

    Args:
        writes: Every write that was ever sent; a repeated write occurs once.
        seen: Every snapshot of every table, from the first on.

    Returns:
        The violations; empty for a history in which every acknowledged write took effect exactly once, whole, in an
        order that fits what the writers knew of each other.
    """
    return [
        *_check_values(writes, seen),
        *_check_wholeness(writes, seen),
        *_check_order(writes, seen),
        *_check_numbers(seen),
    ]


def _check_values(writes: Sequence[Write], seen: Sequence[SeenSnapshot]) -> Iterator[Finding]:
    found = Counter((snapshot.table, value) for snapshot in seen for value in snapshot.values)
    wrote = {(table, value): write for write in writes for table, values in write.values.items() for value in values}
    for (table, value), times in found.items():
        write = wrote.get((table, value))
        if times > 1:
            yield Finding(Kind.DUPLICATE, f"{value} in {table}, {times} times")
        if write is None:
            yield Finding(Kind.PHANTOM, f"{value} in {table}")
        elif write.outcome == "refused":
            yield Finding(Kind.ABORTED_READ, f"{value} in {table}")
    for (table, value), write in wrote.items():
        if write.outcome == "acknowledged" and (table, value) not in found:
            yield Finding(Kind.LOST, f"{value} in {table}, of {_name(write)}")


def _check_wholeness(writes: Sequence[Write], seen: Sequence[SeenSnapshot]) -> Iterator[Finding]:
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for snapshot in seen:
        for value in snapshot.values:
            places[snapshot.table, value].append(snapshot.snapshot_id)
    for write in writes:
        there = {
            (table, value): bool(places[table, value]) for table, values in write.values.items() for value in values
        }
        if any(there.values()) and not all(there.values()):
            missing = [f"{value} in {table}" for (table, value), is_there in there.items() if not is_there]
            yield Finding(Kind.TORN, f"{_name(write)} lacks {', '.join(missing)}")
        for table, values in write.values.items():
            snapshots = {number for value in values for number in places[table, value]}
            if len(snapshots) > 1 and all(len(places[table, value]) == 1 for value in values):
                yield Finding(Kind.TORN, f"{_name(write)} lies in the snapshots {sorted(snapshots)} of {table}")


def _check_order(writes: Sequence[Write], seen: Sequence[SeenSnapshot]) -> Iterator[Finding]:
    """A writer's writes follow its numbers, and an acknowledged write comes before all that began later."""
    first_of = {
        (snapshot.table, value): snapshot.snapshot_id for snapshot in reversed(seen) for value in snapshot.values
    }
    for table in {table for write in writes for table in write.values}:
        placed = sorted(
            (
                (first_of[table, write.values[table][0]], write)
                for write in writes
                if write.values.get(table) and (table, write.values[table][0]) in first_of
            ),
            key=lambda place: place[0],
        )
        last: dict[str, Write] = {}
        began_last: Write | None = None
        for _, write in placed:
            before = last.get(write.writer)
            if before is not None and before.identifier > write.identifier:
                yield Finding(Kind.OUT_OF_ORDER, f"{_name(before)} before {_name(write)} in {table}")
            last[write.writer] = write
            if began_last is not None and write.ended_s is not None and write.ended_s < began_last.began_s:
                yield Finding(
                    Kind.OUT_OF_ORDER,
                    f"{_name(began_last)} before {_name(write)} in {table}, which had been acknowledged when it began",
                )
            if began_last is None or write.began_s > began_last.began_s:
                began_last = write


def _check_numbers(seen: Iterable[SeenSnapshot]) -> Iterator[Finding]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for snapshot in seen:
        numbers[snapshot.table].append(snapshot.snapshot_id)
    for table, found in numbers.items():
        if found != list(range(1, len(found) + 1)):
            yield Finding(Kind.GAP, f"{table} has {found[:50]}")


def _name(write: Write) -> str:
    return f"write {write.identifier} of {write.writer}"
