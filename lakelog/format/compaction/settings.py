"""The table options for compaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakelog.options.declared.tables import (
    CHANGELOG_PRODUCER,
    COMPACTION_TRIGGER,
    DELTA_COMMITS,
    FULL_COMPACTION,
    INCREMENTAL_SIZE_THRESHOLD,
    MAX_LEVELS,
    MAX_SIZE_AMPLIFICATION,
    MIN_FILE_NUM,
    NUM_LEVELS,
    OPEN_FILE_COST,
    OPTIMIZATION_INTERVAL,
    SIZE_RATIO,
    TARGET_FILE_SIZE,
    TOTAL_SIZE_THRESHOLD,
)
from lakelog.options.option import Option
from lakelog.options.values import TableOptions

_FOR_KEYED_TABLES: Final[tuple[Option[Any], ...]] = (DELTA_COMMITS, OPTIMIZATION_INTERVAL)
"""Options by which buckets are compacted as a whole."""


@dataclass(frozen=True)
class CompactionSettings:
    """The settings for planning a table's compactions. Sizes are of files, in bytes.

    Args:
        target_file_size_bytes: The approximate size at which a file ends and the next begins.
        compaction_trigger: `num-sorted-run.compaction-trigger`.
        level_count: `num-levels`.
        max_size_amplification_percent: `compaction.max-size-amplification-percent`.
        size_ratio_percent: `compaction.size-ratio`.
        optimization_interval_ms: `compaction.optimization-interval`; None: never by time.
        total_size_threshold_bytes: `compaction.total-size-threshold`; None: none.
        incremental_size_threshold_bytes: `compaction.incremental-size-threshold`; None: none.
        delta_commits: `full-compaction.delta-commits`; None: never by commits.
        min_file_count: `compaction.min.file-num`.
        open_file_cost_bytes: `source.split.open-file-cost`.
    """

    target_file_size_bytes: int
    compaction_trigger: int = COMPACTION_TRIGGER.default
    level_count: int = COMPACTION_TRIGGER.default + 1
    max_size_amplification_percent: int = MAX_SIZE_AMPLIFICATION.default
    size_ratio_percent: int = SIZE_RATIO.default
    optimization_interval_ms: int | None = None
    total_size_threshold_bytes: int | None = None
    incremental_size_threshold_bytes: int | None = None
    delta_commits: int | None = None
    min_file_count: int = MIN_FILE_NUM.default
    open_file_cost_bytes: int = OPEN_FILE_COST.default

    @property
    def small_file_bytes(self) -> int:
        """Below this size a file is small: 0.7 times the target, rounded as Paimon does (semantics 6.2).

        Not the target itself, since files end only near it: the output of a compaction must not be rewritten.
        """
        return self.target_file_size_bytes // 10 * 7


def to_compaction_settings(options: Mapping[str, str], *, has_primary_key: bool) -> CompactionSettings:
    """Returns the settings from a table's options. Pure.

    Args:
        options: By key, as text; options that do not concern compaction are ignored.
        has_primary_key: Whether the table has a primary key.

    Raises:
        InvalidArgument: A wrong value, or options that contradict each other or the kind of table; names the option,
            the value and the remedy.
    """
    producer = options.get(CHANGELOG_PRODUCER.key, CHANGELOG_PRODUCER.default).strip().lower()
    delta_commits = DELTA_COMMITS.read(options)
    if not has_primary_key:
        _check_append(options)
    elif producer == FULL_COMPACTION and delta_commits is None:
        # Otherwise a stream of the table would never show anything (semantics 3.6).
        delta_commits = 1
    trigger = COMPACTION_TRIGGER.read(options)
    target = TableOptions({key: text for key, text in options.items() if key == TARGET_FILE_SIZE.key})
    return CompactionSettings(
        target_file_size_bytes=target.target_file_size_bytes(has_primary_key),
        compaction_trigger=trigger,
        # With this many levels, the runs that the trigger allows never push each other into level 0.
        level_count=NUM_LEVELS.read(options) or min(trigger + 1, MAX_LEVELS),
        max_size_amplification_percent=MAX_SIZE_AMPLIFICATION.read(options),
        size_ratio_percent=SIZE_RATIO.read(options),
        optimization_interval_ms=OPTIMIZATION_INTERVAL.read(options),
        total_size_threshold_bytes=TOTAL_SIZE_THRESHOLD.read(options),
        incremental_size_threshold_bytes=INCREMENTAL_SIZE_THRESHOLD.read(options),
        delta_commits=delta_commits,
        min_file_count=MIN_FILE_NUM.read(options),
        open_file_cost_bytes=OPEN_FILE_COST.read(options),
    )


def _check_append(options: Mapping[str, str]) -> None:
    for option in _FOR_KEYED_TABLES:
        if option.key in options:
            raise option.refusal(
                options,
                "Only buckets of tables with a primary key are compacted as a whole; this table has none. Leave the "
                "option out, or name a primary key.",
            )
