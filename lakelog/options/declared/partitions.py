"""The table options for the expiry of partitions, and the check that they fit the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lakelog.options.option import Option, invalid_option
from lakelog.options.timestamp_format import TimestampFormatType, find_columns
from lakelog.options.value_types import Choice, Duration, Text

VALUES_TIME: Final = "values-time"
UPDATE_TIME: Final = "update-time"

PARTITION_EXPIRATION_TIME: Final = Option[int | None](
    "partition.expiration-time",
    Duration(),
    None,
    "A compactor removes partitions that are older, by an overwrite. Only for tables with partitions.",
    default_text="never",
)
PARTITION_EXPIRATION_CHECK_INTERVAL: Final = Option[int](
    "partition.expiration-check-interval",
    Duration(),
    3_600_000,
    "How often compactors check whether partitions have expired.",
)
PARTITION_EXPIRATION_STRATEGY: Final = Option[str](
    "partition.expiration-strategy",
    Choice((VALUES_TIME, UPDATE_TIME)),
    VALUES_TIME,
    "When a partition's age begins: with `values-time` at the time in its values, with `update-time` at the last "
    "commit that wrote to it.",
)
PARTITION_TIMESTAMP_PATTERN: Final = Option[str | None](
    "partition.timestamp-pattern",
    Text(last_length=200),
    None,
    "How the values of a partition form its time, for instance `$year-$month-$day $hour:00:00`.",
    default_text="the first partition column",
)
PARTITION_TIMESTAMP_FORMATTER: Final = Option[str | None](
    "partition.timestamp-formatter",
    TimestampFormatType(),
    None,
    "The format of that time, a pattern as in Java, for instance `yyyyMMdd`, in UTC. Partitions whose time cannot "
    "be read stay.",
    default_text="`yyyy-MM-dd HH:mm:ss` or `yyyy-MM-dd`",
)

_OF_EXPIRATION: Final[tuple[Option[Any], ...]] = (
    PARTITION_EXPIRATION_CHECK_INTERVAL,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_TIMESTAMP_PATTERN,
    PARTITION_TIMESTAMP_FORMATTER,
)
_LEAST_INTERVAL_MS: Final = 1000


def check_partition_expiry(options: Mapping[str, str], partition_by: Sequence[str]) -> None:
    """Check that the options for the expiry of partitions fit the table and each other. Pure.

    Raises:
        InvalidArgument: Names the option, the value and the remedy.
    """
    given = [option.key for option in (PARTITION_EXPIRATION_TIME, *_OF_EXPIRATION) if option.key in options]
    if given and not partition_by:
        raise invalid_option(given[0], options[given[0]], "The table has no partitions. Leave the option out.")
    if given and PARTITION_EXPIRATION_TIME.key not in given:
        raise invalid_option(
            given[0],
            options[given[0]],
            f"It has no effect without '{PARTITION_EXPIRATION_TIME.key}'. Give that as well, or leave this one out.",
        )
    interval = PARTITION_EXPIRATION_CHECK_INTERVAL
    if interval.read(options) < _LEAST_INTERVAL_MS:
        raise interval.refusal(options, "Give at least '1 s'.")
    if PARTITION_EXPIRATION_STRATEGY.read(options) == UPDATE_TIME:
        for option in (PARTITION_TIMESTAMP_PATTERN, PARTITION_TIMESTAMP_FORMATTER):
            if option.key in options:
                raise option.refusal(
                    options,
                    f"With '{PARTITION_EXPIRATION_STRATEGY.key}' = '{UPDATE_TIME}' the values of partitions say "
                    f"nothing about their age. Leave it out, or give '{VALUES_TIME}'.",
                )
    pattern = PARTITION_TIMESTAMP_PATTERN.read(options)
    if pattern is not None:
        named = find_columns(pattern)
        wrong = [name for name in named if name not in partition_by]
        if wrong or not named:
            what = f"'{wrong[0]}' is no partition column" if wrong else "It names no partition column"
            raise invalid_option(
                PARTITION_TIMESTAMP_PATTERN.key,
                pattern,
                f"{what}; these are {', '.join(partition_by)}. Write '${partition_by[0]}' for the value of one.",
            )
