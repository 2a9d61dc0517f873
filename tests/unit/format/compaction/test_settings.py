from __future__ import annotations

import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.compaction.settings import CompactionSettings, to_compaction_settings

MB = 1 << 20


def test_defaults() -> None:
    keyed = to_compaction_settings({}, has_primary_key=True)
    assert keyed == CompactionSettings(128 * MB)
    assert keyed == CompactionSettings(
        target_file_size_bytes=128 * MB,
        compaction_trigger=5,
        level_count=6,
        max_size_amplification_percent=200,
        size_ratio_percent=1,
        optimization_interval_ms=None,
        total_size_threshold_bytes=None,
        incremental_size_threshold_bytes=None,
        delta_commits=None,
        min_file_count=5,
        open_file_cost_bytes=4 * MB,
    )
    assert to_compaction_settings({}, has_primary_key=False) == CompactionSettings(256 * MB)
    assert keyed.small_file_bytes == 128 * MB // 10 * 7


def test_all_options() -> None:
    options = {
        "num-sorted-run.compaction-trigger": "3",
        "compaction.max-size-amplification-percent": "25",
        "compaction.size-ratio": "10",
        "compaction.optimization-interval": "1 h",
        "compaction.total-size-threshold": "1 gb",
        "compaction.incremental-size-threshold": "100 mb",
        "full-compaction.delta-commits": "7",
        "compaction.min.file-num": "4",
        "source.split.open-file-cost": "1 mb",
        "target-file-size": "10 mb",
        # Of others.
        "bucket": "4",
    }
    assert to_compaction_settings(options, has_primary_key=True) == CompactionSettings(
        10 * MB, 3, 4, 25, 10, 3_600_000, 1024 * MB, 100 * MB, 7, 4, MB
    )
    assert to_compaction_settings({**options, "num-levels": "9"}, has_primary_key=True).level_count == 9
    # The metastore takes no higher level than 127.
    many = to_compaction_settings({"num-sorted-run.compaction-trigger": "1000"}, has_primary_key=True)
    assert (many.compaction_trigger, many.level_count) == (1000, 128)


def test_the_producer_full_compaction_needs_full_compactions() -> None:
    producer = {"changelog-producer": "full-compaction"}
    assert to_compaction_settings(producer, has_primary_key=True).delta_commits == 1
    given = {**producer, "full-compaction.delta-commits": "5"}
    assert to_compaction_settings(given, has_primary_key=True).delta_commits == 5


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("compaction.min.file-num", "1", "Give a whole number from 2 to 1000000."),
        ("num-levels", "1", "Give a whole number from 2 to 128."),
        ("num-sorted-run.compaction-trigger", "0", "Give a whole number from 1 to 1000."),
        ("compaction.size-ratio", "-1", "Give a whole number from 0 to 1000000."),
        ("compaction.optimization-interval", "soon", "Give a duration such as '1 h'"),
    ],
)
def test_wrong_values_are_refused(key: str, value: str, remedy: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        to_compaction_settings({key: value}, has_primary_key=True)
    assert f"Option '{key}' = '{value}' is not possible. {remedy}" in str(refused.value)


@pytest.mark.parametrize(
    "key",
    [
        "full-compaction.delta-commits",
        "compaction.optimization-interval",
    ],
)
def test_append_tables_are_not_compacted_as_a_whole(key: str) -> None:
    with pytest.raises(InvalidArgument, match="Leave the option out, or name a primary key") as refused:
        to_compaction_settings({key: "10"}, has_primary_key=False)
    assert refused.value.metadata == {"option": key, "value": "10"}
