"""What is due by itself, decided by a few sums: to which buckets compactors are sent, and to which of them first.

Objectives, which conflict: nothing is listed just to find that nothing is due; no compactor is sent in vain; work that
makes reads much cheaper for little writing comes first. So sorted runs and sums of small files decide here, by the
rules that compactors plan by (`picking.py`, `small_files.py`), and only the compactor lists files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.compaction.picking import pick_due
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.compaction.runs import SortedRun
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.compaction.small_files import COMPACT_AGE
from lakelog.format.jobs.job import REQUEST_PRIORITY
from lakelog.options.declared.tables import OPEN_FILE_COST

SCAN_MS: Final = 60_000
"""The time that replaces one scan of `small_files.py`: there are no scans here, so its counts of scans become times."""

COMPACT_AFTER_MS: Final = (COMPACT_AGE + 1) * SCAN_MS
"""How long two or more small files wait for others, counted from the last that joined them."""

READ_COST_BYTES: Final = OPEN_FILE_COST.default
"""The cost of one more file or sorted run for a read, in bytes that it could have read instead: opening and merging."""

HIGHEST_PRIORITY: Final = REQUEST_PRIORITY - 1
"""The highest priority of what is due by itself: for a requested compaction a user waits."""

_MIDDLE_PRIORITY: Final = 32
"""The priority of a compaction that saves each read as many bytes as it rewrites once."""

_STEPS_A_DOUBLING: Final = 2
"""With this middle, a ratio of 1/65,536 has the lowest priority, and one of 360 the highest."""


@dataclass(frozen=True)
class Due:
    """A compaction that is due.

    Args:
        priority: From 0 to `HIGHEST_PRIORITY`; see `find_priority`.
        why: The reason, in a sentence for people.
        delay_ms: In how many milliseconds it is due; 0: now.
    """

    priority: int
    why: str
    delay_ms: int = 0


def find_priority(saved_opens: int, rewritten_bytes: int) -> int:
    """The priority of a compaction: saved read cost per rewritten byte. Pure.

    Each read saves `READ_COST_BYTES` for each file or sorted run less. The compaction costs once the rewritten bytes,
    and as much as opening one file. The priority rises with the logarithm of their ratio:

        32 + 2 * log2(saved_opens * 4 MiB / (rewritten_bytes + 4 MiB)), cut to 0 .. 49

    Args:
        saved_opens: How many fewer files or sorted runs there are after it.
        rewritten_bytes: The size of all its files, at most.
    """
    return find_priority_of_bytes(saved_opens * READ_COST_BYTES, rewritten_bytes)


def find_priority_of_bytes(saved_bytes: int, done_bytes: int) -> int:
    """The same if it is known how many fewer bytes each read costs. Pure."""
    if saved_bytes < 1:
        return 0
    ratio = saved_bytes / (done_bytes + READ_COST_BYTES)
    priority = round(_MIDDLE_PRIORITY + _STEPS_A_DOUBLING * math.log2(ratio))
    return min(max(priority, 0), HIGHEST_PRIORITY)


def count_needed_runs(settings: CompactionSettings) -> int:
    """With fewer sorted runs than this, nothing is ever due in a bucket of a primary-key table. Pure."""
    by_size = (settings.total_size_threshold_bytes, settings.incremental_size_threshold_bytes)
    return 2 if any(threshold is not None for threshold in by_size) else max(settings.compaction_trigger, 2)


def plan_due_runs(runs: Sequence[SortedRun], settings: CompactionSettings) -> Due | NoPlan:
    """Whether a compaction of a bucket of a primary-key table is due. Pure.

    Args:
        runs: All runs of the bucket, the newest first.
        settings: The table's settings.
    """
    # The interval does not depend on commits, and the last compaction of the whole bucket is not known here.
    pick = pick_due(runs, settings, now_ms=0, last_full_ms=0)
    if isinstance(pick, NoPlan):
        return pick
    size_bytes = sum(run.size_bytes for run in runs[: pick.run_count])
    return Due(find_priority(pick.run_count - 1, size_bytes), pick.why)


def plan_due_backlog(file_count: int, size_bytes: int, settings: CompactionSettings) -> Due | NoPlan:
    """Whether the small files of a partition should be combined, in a table without key and buckets. Pure.

    The answer is yes exactly if `small_files.plan_small_files` would find a task among them, or, later, would find it
    because of their age.

    Args:
        file_count: How many small files there are.
        size_bytes: Their total size.
        settings: The table's settings.
    """
    if file_count < 2:
        return NoPlan(f"{file_count} small file{'' if file_count == 1 else 's'}: one alone is left as it is.")
    filled = size_bytes + file_count * settings.open_file_cost_bytes
    # A task writes files of the target size, and one that may be small.
    written = size_bytes // settings.target_file_size_bytes + 1
    priority = find_priority(file_count - min(written, file_count - 1), size_bytes)
    if filled >= 2 * settings.target_file_size_bytes:
        return Due(priority, f"{file_count} small files fill a file together.")
    if file_count >= settings.min_file_count:
        return Due(priority, f"There are {file_count} small files; {settings.min_file_count} are enough.")
    why = f"{file_count} small files have waited for others for {COMPACT_AFTER_MS // SCAN_MS} minutes."
    return Due(priority, why, COMPACT_AFTER_MS)
