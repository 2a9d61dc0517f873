"""What of a plan still stands when other commits have come before it (DESIGN.md section 4).

A compaction takes a while, and nobody waits for it. New files do it no harm: they are newer than all it has seen. An
overwrite, or another compaction, may have taken inputs away; then the parts of the plan that have all of theirs still
stand, since parts share no key, and the others are dropped with a reason and never tried again as they were.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from lakelog.format.compaction.plan import BucketPlan, Move, Rewrite


@dataclass(frozen=True)
class DroppedPart:
    """A part of a plan that can no longer be committed.

    Args:
        part: What was planned.
        missing_file_ids: Its inputs that are not live any more, ascending.
        why: In a sentence for people.
    """

    part: Rewrite | Move
    missing_file_ids: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class RebasedPlan:
    """A plan as it can be committed now.

    Args:
        plan: What still stands, which is full only if nothing was dropped; None: nothing.
        dropped: What does not.
    """

    plan: BucketPlan | None
    dropped: tuple[DroppedPart, ...] = ()


def rebase_plan(plan: BucketPlan, live_file_ids: Collection[int]) -> RebasedPlan:
    """Find which parts of a plan still stand. Pure.

    What a rewrite may drop stays right: a file that became live behind the plan was either committed since, and is
    newer than all inputs, or was written by a compaction of files that were live then, and holds no key that they did
    not.

    Args:
        plan: As it was made.
        live_file_ids: The live files of the bucket now, or those of the plan's files that are live.
    """
    live = frozenset(live_file_ids)
    dropped: list[DroppedPart] = []
    rewrites = tuple(part for part in plan.rewrites if _stands(part, part.file_ids, live, dropped))
    moves = tuple(part for part in plan.moves if _stands(part, (part.file_id,), live, dropped))
    if not dropped and all(file_id in live for file_id in plan.kept_file_ids):
        return RebasedPlan(plan)
    if not rewrites and not moves:
        return RebasedPlan(None, tuple(dropped))
    kept = tuple(file_id for file_id in plan.kept_file_ids if file_id in live)
    return RebasedPlan(replace(plan, is_full=False, rewrites=rewrites, moves=moves, kept_file_ids=kept), tuple(dropped))


def _stands(part: Rewrite | Move, file_ids: tuple[int, ...], live: frozenset[int], dropped: list[DroppedPart]) -> bool:
    missing = tuple(file_id for file_id in file_ids if file_id not in live)
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        why = f"{len(missing)} of its {len(file_ids)} files are not live any more (ids {shown}): others replaced them."
        dropped.append(DroppedPart(part, missing, why))
    return not missing
