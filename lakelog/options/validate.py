"""Whether a table's options fit each other, its columns and its keys, and whether they may change."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.options.declared.partitions import check_partition_expiry
from lakelog.options.declared.retention import check_retention
from lakelog.options.declared.tables import (
    BUCKET,
    BUCKET_KEY,
    CHANGELOG_PRODUCER,
    COMPACTION_TRIGGER,
    DELTA_COMMITS,
    FIRST_ROW,
    FULL_COMPACTION,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    INCREMENTAL_SIZE_THRESHOLD,
    MAX_SIZE_AMPLIFICATION,
    MERGE_ENGINE,
    MIN_FILE_NUM,
    NUM_LEVELS,
    OPEN_FILE_COST,
    OPTIMIZATION_INTERVAL,
    ROW_DEDUPLICATE,
    ROW_DEDUPLICATE_IGNORE_FIELDS,
    ROWKIND_FIELD,
    SEQUENCE_DELETE_RETENTION,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    SIZE_RATIO,
    TOTAL_SIZE_THRESHOLD,
)
from lakelog.options.log_rules import check_log, check_log_growth
from lakelog.options.option import Option, Scope, invalid_option
from lakelog.options.registry import check_options, find_option, quote_names
from lakelog.options.values import TableOptions

RESERVED_COLUMNS: Final = ("_row_kind", "_snapshot_id", "_commit_timestamp", "_replaces_older")
"""Names of lakelog's own columns, in reads of changes and in files (semantics 1.5)."""

_MERGE_OPTIONS: Final[tuple[Option[Any], ...]] = (
    MERGE_ENGINE,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
    SEQUENCE_DELETE_RETENTION,
    ROWKIND_FIELD,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
)
_SORTED_RUN_OPTIONS: Final[tuple[Option[Any], ...]] = (
    COMPACTION_TRIGGER,
    NUM_LEVELS,
    MAX_SIZE_AMPLIFICATION,
    SIZE_RATIO,
    TOTAL_SIZE_THRESHOLD,
    INCREMENTAL_SIZE_THRESHOLD,
    DELTA_COMMITS,
    OPTIMIZATION_INTERVAL,
)
"""The options that decide when buckets of primary-key tables are compacted."""


def validate_table_options(
    options: Mapping[str, str],
    *,
    columns: pa.Schema,
    primary_key: Sequence[str],
    partition_by: Sequence[str],
    current: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Check a table's options against each other, the columns and the keys (semantics 1.1 to 1.6). Pure.

    It also checks the names of columns (reserved, doubled, or equal in another case), and that the keys name existing
    columns. It does not check the types of key columns; `lakelog.format.types.types.check_key_type` does.

    Args:
        options: The options by key, as text.
        columns: The table's columns.
        primary_key: Names of the key's columns in order; empty for an append table.
        partition_by: Names of the partition columns in order.
        current: The table's present options; they may keep values that a new table could not have.

    Raises:
        InvalidArgument: Names the option or column, the value and the remedy.
    """
    _check_column_names(columns)
    _check_keys(columns, primary_key, partition_by)
    check_options(options, Scope.TABLE)
    for key, text in options.items():
        if current.get(key) != text:
            find_option(key, Scope.TABLE).check_new(text)
    if primary_key:
        _check_buckets_of_key(options, columns, primary_key, partition_by)
        _check_sequence(options, columns, primary_key)
        _check_rowkind(options, columns, primary_key)
        _check_first_row(options)
        _check_producer(options, columns)
        _check_compaction_of_key(options)
    else:
        _check_append(options)
        _check_buckets_of_append(options, columns)
        _check_compaction_of_append(options)
    check_retention(options)
    check_log(options, bool(primary_key))
    check_partition_expiry(options, partition_by)


def check_alter(current: Mapping[str, str], set: Mapping[str, str], unset: Sequence[str]) -> None:  # noqa: A002
    """Check that a table's options may be changed in this way. Pure.

    Setting an option to its present value is no change. The resulting options must still pass
    `validate_table_options`.

    Args:
        current: The table's options.
        set: New values by key.
        unset: Keys that get their defaults again; a key without a value is no error.

    Raises:
        InvalidArgument: An unknown option, a wrong value, a key in both arguments, or an option that may not change,
            with the reason.
    """
    check_options(set, Scope.TABLE)
    for key in unset:
        if key in set:
            raise InvalidArgument(
                f"Option '{key}' is to be set and unset at once. Do one of them.",
                reason="CONTRADICTING_OPTIONS",
                metadata={"option": key},
            )
        option = find_option(key, Scope.TABLE)
        if option.fixed_because and key in current:
            raise _fixed(option)
    for key, text in set.items():
        option = find_option(key, Scope.TABLE)
        if option.fixed_because and option.parse(text) != option.read(current):
            raise _fixed(option)
    check_log_growth(current, {**{key: value for key, value in current.items() if key not in unset}, **set})


def _fixed(option: Option[Any]) -> InvalidArgument:
    return InvalidArgument(
        f"Option '{option.key}' cannot change after a table was made: {option.fixed_because}.",
        reason="FIXED_OPTION",
        metadata={"option": option.key},
    )


def _check_column_names(columns: pa.Schema) -> None:
    seen: dict[str, str] = {}
    for name in columns.names:
        folded = name.casefold()
        if folded in RESERVED_COLUMNS:
            raise InvalidArgument(
                f"Column '{name}' has a reserved name; lakelog gives {quote_names(RESERVED_COLUMNS)} to columns of "
                "its own. Rename it.",
                reason="RESERVED_COLUMN",
                metadata={"column": name},
            )
        if folded in seen:
            raise InvalidArgument(
                f"Columns '{seen[folded]}' and '{name}' have names that SQL cannot tell apart, since case does not "
                "count there. Rename one of them.",
                reason="DUPLICATE_COLUMN",
                metadata={"column": name, "other_column": seen[folded]},
            )
        seen[folded] = name


def _check_keys(columns: pa.Schema, primary_key: Sequence[str], partition_by: Sequence[str]) -> None:
    for what, names in (("primary key", primary_key), ("list of partition columns", partition_by)):
        for position, name in enumerate(names):
            if name not in columns.names:
                raise _unknown_column(f"The {what}", name, columns)
            if name in names[:position]:
                raise InvalidArgument(
                    f"The {what} names column '{name}' twice. Name each column once.", metadata={"column": name}
                )
    if not primary_key:
        return
    missing = [name for name in partition_by if name not in primary_key]
    if missing:
        raise InvalidArgument(
            f"The primary key ({', '.join(primary_key)}) lacks the partition column '{missing[0]}'. A row could then "
            "move from one partition to another, which is not in this version: add the column to the key, or leave it "
            "out of the partition columns.",
            metadata={"column": missing[0]},
        )
    if len(primary_key) == len(partition_by):
        raise InvalidArgument(
            f"The primary key ({', '.join(primary_key)}) has only partition columns, so that each partition would hold "
            "one row. Add a column to the key, or take one out of the partition columns.",
            metadata={"column": primary_key[0]},
        )


def _check_buckets_of_key(
    options: Mapping[str, str], columns: pa.Schema, primary_key: Sequence[str], partition_by: Sequence[str]
) -> None:
    count = TableOptions(options).bucket_count(has_primary_key=True)
    if count == -1:
        raise BUCKET.refusal(options, "Dynamic buckets are not in this version: give 'bucket' a number above 0.")
    trimmed = [name for name in primary_key if name not in partition_by]
    for name in BUCKET_KEY.read(options):
        if name not in columns.names:
            raise _unknown_column(f"Option '{BUCKET_KEY.key}'", name, columns)
        if name not in trimmed:
            raise BUCKET_KEY.refusal(
                options,
                f"Column '{name}' is not one of the primary key's columns without the partition columns "
                f"({', '.join(trimmed)}), so rows of one key could lie in several buckets. Choose from these columns.",
            )


def _check_buckets_of_append(options: Mapping[str, str], columns: pa.Schema) -> None:
    count = TableOptions(options).bucket_count(has_primary_key=False)
    names = BUCKET_KEY.read(options)
    if count == -1:
        if names:
            raise BUCKET_KEY.refusal(
                options,
                "The table has no buckets ('bucket' is -1). Give 'bucket' a number above 0, or leave this one out.",
            )
        return
    if not names:
        raise BUCKET.refusal(
            options,
            f"A table without a primary key must say which columns its buckets go by: give '{BUCKET_KEY.key}', or "
            "leave 'bucket' out.",
        )
    for name in names:
        if name not in columns.names:
            raise _unknown_column(f"Option '{BUCKET_KEY.key}'", name, columns)
        data_type = columns.field(name).type
        if pt.is_nested(data_type) or pt.is_floating(data_type):
            raise BUCKET_KEY.refusal(
                options,
                f"Column '{name}' has type {data_type}; floating-point numbers and nested types cannot be keys. "
                "Choose columns of other types.",
            )


def _check_sequence(options: Mapping[str, str], columns: pa.Schema, primary_key: Sequence[str]) -> None:
    names = SEQUENCE_FIELD.read(options)
    if not names:
        for option in (SEQUENCE_SORT_ORDER, SEQUENCE_DELETE_RETENTION):
            if option.key in options:
                raise option.refusal(options, f"It has no effect without '{SEQUENCE_FIELD.key}'. Give both, or none.")
    for name in names:
        if name not in columns.names:
            raise _unknown_column(f"Option '{SEQUENCE_FIELD.key}'", name, columns)
        if name in primary_key:
            raise SEQUENCE_FIELD.refusal(
                options,
                f"Column '{name}' is part of the primary key, so it is equal in all rows of a key and cannot order "
                "them. Choose another column.",
            )
        if pt.is_nested(columns.field(name).type):
            raise SEQUENCE_FIELD.refusal(
                options,
                f"Column '{name}' has type {columns.field(name).type}; nested types have no order. "
                "Choose a column with a number, a time or a text.",
            )


def _check_rowkind(options: Mapping[str, str], columns: pa.Schema, primary_key: Sequence[str]) -> None:
    name = ROWKIND_FIELD.read(options)
    if name is None:
        return
    if name not in columns.names:
        raise _unknown_column(f"Option '{ROWKIND_FIELD.key}'", name, columns)
    data_type = columns.field(name).type
    if not (pt.is_string(data_type) or pt.is_large_string(data_type) or pt.is_string_view(data_type)):
        raise invalid_option(
            ROWKIND_FIELD.key,
            name,
            f"Column '{name}' has type {data_type}. Choose a string column that holds +I, -U, +U or -D.",
        )
    if name in primary_key:
        raise invalid_option(
            ROWKIND_FIELD.key,
            name,
            f"Column '{name}' is part of the primary key, so a delete could not find the row it deletes. "
            "Choose another column.",
        )


def _check_first_row(options: Mapping[str, str]) -> None:
    if MERGE_ENGINE.read(options) != FIRST_ROW:
        return
    if SEQUENCE_FIELD.key in options:
        raise SEQUENCE_FIELD.refusal(
            options,
            f"With '{MERGE_ENGINE.key}' = '{FIRST_ROW}' the row that was committed first stays, whatever its columns "
            "hold. Leave one of the two out.",
        )
    producer = CHANGELOG_PRODUCER.read(options)
    if producer not in ("none", "lookup"):
        raise invalid_option(
            CHANGELOG_PRODUCER.key,
            producer,
            f"With '{MERGE_ENGINE.key}' = '{FIRST_ROW}' a changelog holds the rows that came first, which the writer "
            "looks up (lookup) or the reader (none). Give one of these.",
        )
    if ROW_DEDUPLICATE.read(options):
        raise ROW_DEDUPLICATE.refusal(
            options,
            f"It has no effect with '{MERGE_ENGINE.key}' = '{FIRST_ROW}', where no row is ever replaced. Leave it out.",
        )


def _check_producer(options: Mapping[str, str], columns: pa.Schema) -> None:
    for option, wanted in (
        (ROW_DEDUPLICATE, CHANGELOG_PRODUCER.read(options) in ("lookup", FULL_COMPACTION)),
        (ROW_DEDUPLICATE_IGNORE_FIELDS, ROW_DEDUPLICATE.read(options)),
    ):
        if option.read(options) != option.default and not wanted:
            needs = f"'{ROW_DEDUPLICATE.key}'"
            if option is ROW_DEDUPLICATE:
                needs = f"'{CHANGELOG_PRODUCER.key}' = lookup or {FULL_COMPACTION}"
            raise option.refusal(options, f"It has no effect without {needs}. Give both, or none.")
    for name in ROW_DEDUPLICATE_IGNORE_FIELDS.read(options):
        if name not in columns.names:
            raise _unknown_column(f"Option '{ROW_DEDUPLICATE_IGNORE_FIELDS.key}'", name, columns)


def _check_append(options: Mapping[str, str]) -> None:
    for option in _MERGE_OPTIONS:
        if option.key in options:
            raise option.refusal(
                options,
                "The table has no primary key, so its rows are never merged. Give the table a primary key, or leave "
                "the option out.",
            )
    producers = (CHANGELOG_PRODUCER, ROW_DEDUPLICATE, ROW_DEDUPLICATE_IGNORE_FIELDS)
    for option in producers:
        if option.read(options) != option.default:
            raise option.refusal(
                options,
                "The table has no primary key, so its rows never change, and streams show added rows without a "
                "changelog. Give the table a primary key, or leave the option out.",
            )


def _check_compaction_of_key(options: Mapping[str, str]) -> None:
    for option in (MIN_FILE_NUM, OPEN_FILE_COST):
        if option.key in options:
            raise option.refusal(
                options,
                "It is about small files of tables without a primary key. The buckets of this one are compacted by "
                f"their sorted runs: leave it out, or give '{COMPACTION_TRIGGER.key}'.",
            )


def _check_compaction_of_append(options: Mapping[str, str]) -> None:
    for option in _SORTED_RUN_OPTIONS:
        if option.key in options:
            raise option.refusal(
                options,
                "The table has no primary key, so its files are no sorted runs. Its small files are put together: give "
                f"'{MIN_FILE_NUM.key}', or leave the option out.",
            )
    if OPEN_FILE_COST.key in options and TableOptions(options).bucket_count(has_primary_key=False) != -1:
        raise OPEN_FILE_COST.refusal(
            options,
            f"In a table with buckets only neighbours are put together, as many as '{MIN_FILE_NUM.key}' says. Leave it "
            "out.",
        )


def _unknown_column(who: str, name: str, columns: pa.Schema) -> InvalidArgument:
    nearest = difflib.get_close_matches(name, columns.names, n=3, cutoff=0.5) or columns.names[:20]
    known = f" The columns nearest to it are {quote_names(nearest)}." if nearest else ""
    return InvalidArgument(
        f"{who} {'names' if who.startswith('Option') else 'has'} column '{name}', which the table does not have."
        f"{known} Name an existing column; upper and lower case count.",
        reason="UNKNOWN_COLUMN",
        metadata={"column": name},
    )
