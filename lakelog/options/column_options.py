"""Options whose values name columns of the table, and how they follow a column that gets another name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.options.declared.partitions import PARTITION_TIMESTAMP_PATTERN
from lakelog.options.declared.tables import (
    BUCKET_KEY,
    ROW_DEDUPLICATE_IGNORE_FIELDS,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
)
from lakelog.options.option import Option
from lakelog.options.timestamp_format import find_columns, rename_columns

_LISTS: Final[tuple[Option[tuple[str, ...]], ...]] = (BUCKET_KEY, SEQUENCE_FIELD, ROW_DEDUPLICATE_IGNORE_FIELDS)


def find_named_columns(options: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The columns that a table's options name, by the option's key. Pure."""
    named = {option.key: option.read(options) for option in _LISTS if option.key in options}
    if (kinds := ROWKIND_FIELD.read(options)) is not None:
        named[ROWKIND_FIELD.key] = (kinds,)
    if (pattern := PARTITION_TIMESTAMP_PATTERN.read(options)) is not None:
        named[PARTITION_TIMESTAMP_PATTERN.key] = tuple(find_columns(pattern))
    return named


def rename_in_options(options: Mapping[str, str], new_names: Mapping[str, str]) -> dict[str, str]:
    """The options under the new names of columns. Pure.

    Args:
        options: A table's options.
        new_names: By the old name, of columns that are called otherwise.

    Raises:
        InvalidArgument: The new name cannot be written in an option.
    """
    renamed = dict(options)
    for option in _LISTS:
        names = option.read(options)
        if new_names.keys() & set(names):
            changed = tuple(new_names.get(name, name) for name in names)
            _check_names(option.key, changed)
            renamed[option.key] = option.type.format(changed)
    if (kinds := ROWKIND_FIELD.read(options)) is not None:
        renamed[ROWKIND_FIELD.key] = new_names.get(kinds, kinds)
    if (pattern := PARTITION_TIMESTAMP_PATTERN.read(options)) is not None:
        renamed[PARTITION_TIMESTAMP_PATTERN.key] = rename_columns(pattern, new_names)
    return renamed


def _check_names(key: str, names: tuple[str, ...]) -> None:
    wrong = [name for name in names if "," in name or name != name.strip()]
    if wrong:
        raise InvalidArgument(
            f"A column cannot be called '{wrong[0][:100]}' while option '{key}' names it: commas separate names there, "
            "and spaces around a name do not count. Choose another name.",
            reason="INVALID_COLUMN_CHANGE",
            metadata={"column": wrong[0], "option": key},
        )
