"""Universal compaction: which of a bucket's newest sorted runs are compacted, into which level (semantics 6.1).

Objectives, which conflict: few runs, so that reads merge little; every byte is written few times; superseded rows take
little space. Universal compaction, RocksDB's name for it, writes least: runs are merged when they are about as large as
all newer ones together.

Invariants:

1. A pick is the newest runs up to some run, so its output is between what is newer and what is older.
2. Nothing is written to level 0. So a pick has all known files of levels 0 and 1, and files leave level 0 oldest first.
3. A pick of all runs goes to the highest level.
4. A pick of several runs leaves one in their place, so repeated picking ends.

All sizes are compared as integers: what is true for 8 and 9 bytes is true for 8 and 9 petabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.format.compaction.plan import Finding, NoPlan, Rule
from lakelog.format.compaction.runs import SortedRun
from lakelog.format.compaction.settings import CompactionSettings


@dataclass(frozen=True)
class Pick:
    """The newest runs of a bucket that are compacted together.

    Args:
        run_count: How many runs.
        output_level: Where they go.
        is_full: Whether they are all runs.
        rule: The rule that made it due.
        why: The reason, in a sentence for people.
    """

    run_count: int
    output_level: int
    is_full: bool
    rule: Rule
    why: str


def find_highest_level(runs: Sequence[SortedRun], settings: CompactionSettings) -> int:
    """The highest level of a bucket: that of the settings, or a higher one if earlier settings had more. Pure."""
    return max([settings.level_count - 1, *(run.level for run in runs)])


def pick_due(
    runs: Sequence[SortedRun],
    settings: CompactionSettings,
    *,
    now_ms: int,
    last_full_ms: int | None,
) -> Pick | NoPlan:
    """Picks what is due by itself, the compaction that users know as `minor`. Pure.

    The first rule that finds something wins: time since the last full compaction, size of the bucket, size above the
    highest level; size amplification; size ratio; number of runs.

    Args:
        runs: All runs of the bucket, the newest first.
        settings: The table's settings.
        now_ms: Milliseconds since the epoch; only for the optimization interval.
        last_full_ms: When all runs of the bucket were last compacted together, for any reason; None: never.

    Returns:
        A pick, or the finding of each rule.
    """
    if not runs:
        return NoPlan("The bucket has no files.")
    findings: list[Finding] = []
    for found in (
        _pick_by_interval(runs, settings, now_ms, last_full_ms),
        _pick_by_total_size(runs, settings),
        _pick_by_incremental_size(runs, settings),
        pick_by_size_amplification(runs, settings),
        pick_by_size_ratio(runs, settings),
        _pick_by_run_count(runs, settings),
    ):
        if isinstance(found, Pick):
            return found
        if found is not None:
            findings.append(found)
    # Rules with the same input find the same; people read it once.
    whys = dict.fromkeys(finding.why for finding in findings)
    return NoPlan(f"Nothing is due: {'; '.join(whys)}.", tuple(findings))


def pick_full(
    runs: Sequence[SortedRun], settings: CompactionSettings, *, why: str, also_highest: bool = False
) -> Pick | NoPlan:
    """Picks all runs, whatever their sizes. Pure.

    Args:
        runs: All runs of the bucket, the newest first.
        settings: The table's settings.
        why: The origin of the request, in a sentence.
        also_highest: Pick the highest level's run even if it is the only one.
    """
    if not runs:
        return NoPlan("The bucket has no files.")
    highest = find_highest_level(runs, settings)
    if len(runs) == 1 and runs[0].level == highest and not also_highest:
        return NoPlan(f"The bucket is compacted as a whole: all its files are at its highest level, {highest}.")
    return Pick(len(runs), highest, True, Rule.REQUESTED, why)


def pick_level_0(runs: Sequence[SortedRun], settings: CompactionSettings) -> Pick | NoPlan:
    """Picks all files of level 0, however few, and what the size ratio adds to them. Pure.

    Args:
        runs: All runs of the bucket, the newest first.
        settings: The table's settings.
    """
    count = sum(run.level == 0 for run in runs)
    if count == 0:
        return NoPlan("No file of the bucket is at level 0.")
    taken = _extend_by_ratio(runs, settings, count, is_wanted=True)
    return _to_pick(runs, settings, taken, Rule.LEVEL_0, f"{count} files of level 0 are compacted, as was asked for.")


def pick_by_size_amplification(runs: Sequence[SortedRun], settings: CompactionSettings) -> Pick | Finding:
    """Picks all runs if all except the oldest are too large in comparison with the oldest. Pure.

    Args:
        runs: All runs of the bucket, the newest first; at least one.
        settings: The table's settings.
    """
    if len(runs) < settings.compaction_trigger:
        return _too_few(Rule.SIZE_AMPLIFICATION, runs, settings)
    newer = sum(run.size_bytes for run in runs[:-1])
    oldest, percent = runs[-1].size_bytes, settings.max_size_amplification_percent
    if newer * 100 <= percent * oldest:
        return Finding(
            Rule.SIZE_AMPLIFICATION,
            f"the newer sorted runs have {newer} bytes, not more than {percent} % of the oldest one's {oldest}",
        )
    return Pick(
        len(runs),
        find_highest_level(runs, settings),
        True,
        Rule.SIZE_AMPLIFICATION,
        f"The newer sorted runs have {newer} bytes, more than {percent} % of the oldest one's {oldest}.",
    )


def pick_by_size_ratio(runs: Sequence[SortedRun], settings: CompactionSettings) -> Pick | Finding:
    """Picks the newest run and the following ones that are no larger than what is picked already. Pure.

    Args:
        runs: All runs of the bucket, the newest first; at least one.
        settings: The table's settings.
    """
    if len(runs) < settings.compaction_trigger:
        return _too_few(Rule.SIZE_RATIO, runs, settings)
    count = _extend_by_ratio(runs, settings, 1)
    if count == 1:
        return Finding(
            Rule.SIZE_RATIO,
            f"the newest sorted run has {runs[0].size_bytes} bytes and the next one is more than "
            f"{settings.size_ratio_percent} % larger"
            if len(runs) > 1
            else "there is one sorted run only",
        )
    return _to_pick(
        runs,
        settings,
        count,
        Rule.SIZE_RATIO,
        f"{count} sorted runs are each at most {settings.size_ratio_percent} % larger than the newer ones together.",
    )


def _pick_by_run_count(runs: Sequence[SortedRun], settings: CompactionSettings) -> Pick | Finding:
    trigger = settings.compaction_trigger
    if len(runs) <= trigger:
        return Finding(Rule.RUN_COUNT, f"there {_are(runs)}, not more than {trigger}")
    count = _extend_by_ratio(runs, settings, len(runs) - trigger + 1, is_wanted=True)
    why = f"There {_are(runs)}, more than {trigger}."
    return _to_pick(runs, settings, count, Rule.RUN_COUNT, why)


def _pick_by_interval(
    runs: Sequence[SortedRun], settings: CompactionSettings, now_ms: int, last_full_ms: int | None
) -> Pick | Finding | None:
    interval = settings.optimization_interval_ms
    if interval is None:
        return None
    if len(runs) == 1:
        return Finding(Rule.INTERVAL, "there is one sorted run only")
    if last_full_ms is not None and now_ms - last_full_ms <= interval:
        return Finding(
            Rule.INTERVAL, f"the last full compaction was {now_ms - last_full_ms} ms ago, not more than {interval}"
        )
    since = "was never compacted" if last_full_ms is None else f"was last compacted {now_ms - last_full_ms} ms ago"
    why = f"The bucket {since} as a whole; the interval is {interval} ms."
    return Pick(len(runs), find_highest_level(runs, settings), True, Rule.INTERVAL, why)


def _pick_by_total_size(runs: Sequence[SortedRun], settings: CompactionSettings) -> Pick | Finding | None:
    threshold = settings.total_size_threshold_bytes
    if threshold is None:
        return None
    if len(runs) == 1:
        return Finding(Rule.TOTAL_SIZE, "there is one sorted run only")
    total = sum(run.size_bytes for run in runs)
    if total >= threshold:
        return Finding(Rule.TOTAL_SIZE, f"the bucket has {total} bytes, not less than {threshold}")
    why = f"The bucket has {total} bytes, less than {threshold}."
    return Pick(len(runs), find_highest_level(runs, settings), True, Rule.TOTAL_SIZE, why)


def _pick_by_incremental_size(runs: Sequence[SortedRun], settings: CompactionSettings) -> Pick | Finding | None:
    threshold = settings.incremental_size_threshold_bytes
    if threshold is None:
        return None
    if len(runs) == 1:
        return Finding(Rule.INCREMENTAL_SIZE, "there is one sorted run only")
    highest = find_highest_level(runs, settings)
    above = sum(run.size_bytes for run in runs if run.level != highest)
    if above <= threshold:
        return Finding(Rule.INCREMENTAL_SIZE, f"{above} bytes lie above the highest level, not more than {threshold}")
    why = f"{above} bytes lie above the highest level, more than {threshold}."
    return Pick(len(runs), highest, True, Rule.INCREMENTAL_SIZE, why)


def _too_few(rule: Rule, runs: Sequence[SortedRun], settings: CompactionSettings) -> Finding:
    return Finding(rule, f"there {_are(runs)}, fewer than {settings.compaction_trigger}")


def _are(runs: Sequence[SortedRun]) -> str:
    return "is 1 sorted run" if len(runs) == 1 else f"are {len(runs)} sorted runs"


def _extend_by_ratio(
    runs: Sequence[SortedRun], settings: CompactionSettings, count: int, *, is_wanted: bool = False
) -> int:
    """How many runs are picked: the first `count`, and more while the next one is not too large for them.

    Once something is picked (two runs, or one that is explicitly wanted), levels 0 and 1 are included whatever their
    sizes, since nothing is written to level 0; and the following runs are compared with that sum, too. Otherwise the
    rest of level 1 would be written repeatedly, growing, but never leave it: with 6 levels and a trigger of 8 every
    byte was written 165 times in 3,000 commits; this way it is 11 times.
    """
    taken = sum(run.size_bytes for run in runs[:count])
    for run in runs[count:]:
        is_large = taken * (100 + settings.size_ratio_percent) < run.size_bytes * 100
        if is_large and not (is_wanted and run.level <= 1):
            break
        taken += run.size_bytes
        count += 1
        is_wanted = True
    return count


def _to_pick(runs: Sequence[SortedRun], settings: CompactionSettings, count: int, rule: Rule, why: str) -> Pick:
    """A pick of the first `count` runs, including all of levels 0 and 1: it goes above the next older run."""
    if count == len(runs):
        return Pick(count, find_highest_level(runs, settings), True, rule, why)
    return Pick(count, runs[count].level - 1, False, rule, why)
