"""The table options for the retention of snapshots and changelogs, and the check that they fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakelog.options.declared import tables as table_options
from lakelog.options.option import Option
from lakelog.options.value_types import Duration, Whole

MAX_RETAINED: Final = 2**31 - 1
"""More snapshots than any table ever has."""

SNAPSHOT_TIME_RETAINED: Final = Option[int](
    "snapshot.time-retained",
    Duration(),
    3_600_000,
    "How long a snapshot is kept after the next one was committed. Then it expires: it cannot be read any more, and "
    "files that no other snapshot needs are deleted. Snapshots that consumers, tags, long reads or pending changelogs "
    "need are kept longer.",
)
SNAPSHOT_NUM_RETAINED_MIN: Final = Option[int](
    "snapshot.num-retained.min",
    Whole(1, MAX_RETAINED),
    10,
    "How many of the newest snapshots are kept, however old they are.",
)
SNAPSHOT_NUM_RETAINED_MAX: Final = Option[int | None](
    "snapshot.num-retained.max",
    Whole(1, MAX_RETAINED),
    None,
    "How many snapshots are kept at most: older ones expire, however young they are, unless they are needed.",
    default_text="unlimited",
)
CHANGELOG_TIME_RETAINED: Final = Option[int | None](
    "changelog.time-retained",
    Duration(),
    None,
    "How long the changelog of a snapshot is kept after the next one was committed, if that is longer than the "
    "snapshot itself: streams can go on from it although its state cannot be read any more. Needs a "
    "`changelog-producer`.",
    default_text="as long as the snapshot",
)
CHANGELOG_NUM_RETAINED_MIN: Final = Option[int | None](
    "changelog.num-retained.min",
    Whole(1, MAX_RETAINED),
    None,
    "How many of the newest changelogs are kept, however old they are. Needs a `changelog-producer`.",
    default_text="as many as snapshots",
)
CHANGELOG_NUM_RETAINED_MAX: Final = Option[int | None](
    "changelog.num-retained.max",
    Whole(1, MAX_RETAINED),
    None,
    "How many changelogs are kept at most: older ones expire, however young they are, unless they are needed or their "
    "snapshots are kept. Needs a `changelog-producer`.",
    default_text="unlimited",
)

_OF_CHANGELOGS: Final[tuple[Option[Any], ...]] = (
    CHANGELOG_TIME_RETAINED,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_NUM_RETAINED_MAX,
)


def check_retention(options: Mapping[str, str]) -> None:
    """Check that the retention options for snapshots and changelogs fit each other. Pure.

    Raises:
        InvalidArgument: Names the option, the value and the remedy.
    """
    lowest = SNAPSHOT_NUM_RETAINED_MIN.read(options)
    _check_order(options, SNAPSHOT_NUM_RETAINED_MIN, lowest, SNAPSHOT_NUM_RETAINED_MAX)
    for option in _OF_CHANGELOGS:
        if option.key in options and table_options.CHANGELOG_PRODUCER.read(options) == "none":
            raise option.refusal(
                options,
                f"It has no effect without a '{table_options.CHANGELOG_PRODUCER.key}': what such a table's streams "
                "show is read from its data files, which live as long as their snapshots. Give "
                f"'{SNAPSHOT_TIME_RETAINED.key}', or leave the option out.",
            )
    least = CHANGELOG_NUM_RETAINED_MIN.read(options)
    _check_order(options, CHANGELOG_NUM_RETAINED_MIN, lowest if least is None else least, CHANGELOG_NUM_RETAINED_MAX)


def _check_order(options: Mapping[str, str], lower: Option[Any], least: int, upper: Option[int | None]) -> None:
    most = upper.read(options)
    if most is not None and least > most:
        source = "" if lower.key in options else ", its default,"
        raise upper.refusal(
            options,
            f"It is below '{lower.key}' = '{least}'{source} so that they contradict each other. Give at least {least}, "
            f"or a lower '{lower.key}'.",
        )
