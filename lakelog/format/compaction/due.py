"""What is due by itself, said by a few sums: which buckets compactors are sent to, and which of them first.

Objectives, which pull against each other: nothing is listed to find out that nothing is due; nobody is sent in vain;
what makes reads much cheaper for little writing comes first. So sorted runs and sums of small files decide here, by the
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
"""What stands for one scan of `small_files.py`, since nothing scans: what counts there in scans is time here."""

COMPACT_AFTER_MS: Final = (COMPACT_AGE + 1) * SCAN_MS
"""How long two small files or more wait for others, counted from the last that joined them."""

READ_COST_BYTES: Final = OPEN_FILE_COST.default
"""What one more file or sorted run costs a read, in bytes that it could have read instead: opening and merging it."""

HIGHEST_PRIORITY: Final = REQUEST_PRIORITY - 1
"""Of what is due by itself: whoever asks for a compaction waits for it."""

_MIDDLE_PRIORITY: Final = 32
"""Of a compaction that saves each read as many bytes as it rewrites once."""

_STEPS_A_DOUBLING: Final = 2
"""With the middle as it is, what saves a 65,536th has the lowest priority, and what saves 360 times the highest."""


@dataclass(frozen=True)
class Due:
    """A compaction that is due.

    Args:
        priority: From 0 to `HIGHEST_PRIORITY`; see `find_priority`.
        why: In a sentence for people.
        delay_ms: In how many milliseconds it is due; 0: now.
    """

    priority: int
    why: str
    delay_ms: int = 0


def find_priority(saved_opens: int, rewritten_bytes: int) -> int:
    """How soon a compaction comes: read cost saved a byte rewritten. Pure.

    What each read saves is `READ_COST_BYTES` for each file or sorted run less; what it costs once are the bytes that
    are rewritten, and as much as opening one file. The priority rises with the logarithm of their ratio:

        32 + 2 * log2(saved_opens * 4 MiB / (rewritten_bytes + 4 MiB)), cut to 0 .. 49

    Args:
        saved_opens: How many files or sorted runs there are less behind it.
        rewritten_bytes: Of all files that it takes, at most.
    """
    return find_priority_of_bytes(saved_opens * READ_COST_BYTES, rewritten_bytes)


def find_priority_of_bytes(saved_bytes: int, done_bytes: int) -> int:
    """The same where it is known how many bytes less each read costs. Pure."""
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
        runs: All of the bucket, the newest first.
        settings: The table's.
    """
    # The interval is no matter of commits, and when the bucket was last compacted as a whole is not known here.
    pick = pick_due(runs, settings, now_ms=0, last_full_ms=0)
    if isinstance(pick, NoPlan):
        return pick
    size_bytes = sum(run.size_bytes for run in runs[: pick.run_count])
    return Due(find_priority(pick.run_count - 1, size_bytes), pick.why)


def plan_due_backlog(file_count: int, size_bytes: int, settings: CompactionSettings) -> Due | NoPlan:
    """Whether the small files of a partition are to be put together, in a table without key and buckets. Pure.

    It says so exactly when `small_files.plan_small_files` would find a task among them, or, later, would find it for
    their age.

    Args:
        file_count: How many small files there are.
        size_bytes: Of all of them.
        settings: The table's.
    """
    if file_count < 2:
        return NoPlan(f"{file_count} small file{'' if file_count == 1 else 's'}: one alone is left as it is.")
    filled = size_bytes + file_count * settings.open_file_cost_bytes
    # What a task writes are files of the target size, and one that may be small.
    written = size_bytes // settings.target_file_size_bytes + 1
    priority = find_priority(file_count - min(written, file_count - 1), size_bytes)
    if filled >= 2 * settings.target_file_size_bytes:
        return Due(priority, f"{file_count} small files fill a file together.")
    if file_count >= settings.min_file_count:
        return Due(priority, f"There are {file_count} small files; {settings.min_file_count} are enough.")
    why = f"{file_count} small files have waited for others for {COMPACT_AFTER_MS // SCAN_MS} minutes."
    return Due(priority, why, COMPACT_AFTER_MS)
