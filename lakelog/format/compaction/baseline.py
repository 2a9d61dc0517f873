"""Full compactions that emit the changes since the one before (semantics 3.6): which files take part.

A file is in the *changelog baseline* if its rows are part of the state to which the emitted changelog has led. The
files that a full compaction leaves are in the baseline, and stay in it, whatever happens to them, until another full
compaction has emitted the difference from them. So a plan of a whole bucket is split into parts that share no key, each
with the baseline files in its range: the changelog of a part leads from their rows to those that it leaves.

Invariants:

1. No files of two parts share a key range, baseline files included. Each part may be done, committed or dropped without
   the others: in every case merging the baseline gives the state of the emitted changelog.
2. If all parts are done, the baseline is the live files as they were planned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakelog.format.compaction.plan import BucketPlan, NoPlan
from lakelog.format.compaction.runs import BucketFiles
from lakelog.format.merge.sections import KeyRange, find_hull, split_sections


@dataclass(frozen=True)
class EmissionPart:
    """A part of a full compaction that emits its changes.

    Args:
        inputs: Ids of the files that are rewritten, ascending; they may be at the highest level already.
        moved: The id of a file that gets the level unchanged; None: there is none. Then nothing is rewritten.
        baseline: Ids of baseline files, live or not, that leave the baseline with it, ascending.
        why: The reason, in a sentence for people.
    """

    inputs: tuple[int, ...]
    moved: int | None
    baseline: tuple[int, ...]
    why: str


def plan_emission(
    files: BucketFiles | None, plan: BucketPlan | NoPlan, baseline: Mapping[int, KeyRange]
) -> tuple[EmissionPart, ...]:
    """Plans what a full compaction of a bucket writes and emits. Pure; O(n log n) in the number of files.

    Args:
        files: All live files of the bucket; None: it has none.
        plan: A plan for all of them (`bucket_plan.plan_full`, or what is due if that is full).
        baseline: The key ranges of the bucket's files that are in the baseline now, live or not, by id.

    Returns:
        Parts in the order of their keys; none if all live files are at the highest level and in the baseline.
    """
    live = {} if files is None else dict(zip(files.file_ids.tolist(), files.ranges, strict=True))
    units = _to_units(live, plan, baseline)
    gone = [(file_id, found) for file_id, found in baseline.items() if file_id not in live]
    ranges = [unit.hull for unit in units] + [found for _, found in gone]
    parts = []
    for section in split_sections(ranges):
        members = [units[place] for place in section if place < len(units)]
        lost = [gone[place - len(units)][0] for place in section if place >= len(units)]
        part = _to_part(members, lost, baseline)
        if part is not None:
            parts.append(part)
    return tuple(parts)


@dataclass(frozen=True)
class _Unit:
    """Live files that are rewritten together, or one that is moved or stays.

    Args:
        file_ids: The files' ids.
        hull: The range of their keys.
        is_moved: Whether the file is moved.
        why: Why they are rewritten or moved; empty: only because of the baseline.
    """

    file_ids: tuple[int, ...]
    hull: KeyRange
    is_moved: bool
    why: str


def _to_units(live: Mapping[int, KeyRange], plan: BucketPlan | NoPlan, baseline: Collection[int]) -> list[_Unit]:
    units = []
    rest = dict(live)
    if isinstance(plan, BucketPlan):
        units += [
            _Unit(each.file_ids, find_hull([rest.pop(file_id) for file_id in each.file_ids]), False, each.why)
            for each in plan.rewrites
        ]
        units += [_Unit((move.file_id,), rest.pop(move.file_id), True, plan.why) for move in plan.moves]
    for file_id, found in rest.items():
        why = "" if file_id in baseline else "It lies at the highest level, and is not in the baseline yet."
        units.append(_Unit((file_id,), found, False, why))
    return units


def _to_part(units: list[_Unit], gone: list[int], baseline: Collection[int]) -> EmissionPart | None:
    inputs = tuple(sorted(file_id for unit in units for file_id in unit.file_ids))
    ended = tuple(sorted([*gone, *(file_id for file_id in inputs if file_id in baseline)]))
    if gone:
        files = "A file that was" if len(gone) == 1 else f"{len(gone)} files that were"
        return EmissionPart(inputs, None, ended, f"{files} of the baseline, replaced since.")
    # There is one unit, unless bounds of files at the highest level are truncated, so that they seem to overlap.
    reasons = [unit.why for unit in units if unit.why]
    if not reasons:
        return None
    if len(units) == 1 and units[0].is_moved:
        return EmissionPart((), units[0].file_ids[0], ended, reasons[0])
    return EmissionPart(inputs, None, ended, reasons[0])
