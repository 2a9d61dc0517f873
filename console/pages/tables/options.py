"""The options of a table as they hold: what was set, and the defaults of the rest. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lakelog.format.tables.table import TableInfo
from lakelog.options.option import Option, Scope
from lakelog.options.registry import list_options
from lakelog.options.values import TableOptions
from lakelog.privacy.redaction import blot_out_forms

from ..page import Column, Listing

_COLUMNS: Final = (
    Column("key", "Option", "code"),
    Column("value", "Value", "code"),
    Column("source", "From", hint="who gave the value: this table, a rule over the table, or no one"),
    Column("changeable", "Can change", "flag"),
    Column("description", "What it does", "prose"),
)
_SET: Final = "this table"
_DEFAULT: Final = "default"
_RULE: Final = "default by the table"


def list_set_options(info: TableInfo) -> Listing:
    """The options that were set for the table."""
    known = {option.key: option for option in list_options(Scope.TABLE)}
    rows = [_row(known.get(key), key, value, _SET) for key, value in sorted(info.options.items())]
    return Listing("options", "Options of this table", _COLUMNS, rows, "No option was set: all have their defaults.")


def list_defaults(info: TableInfo) -> Listing:
    """The options that were not set, with the values that hold."""
    return Listing("defaults", "Options with defaults", _COLUMNS, list(_list_defaults(info)))


def _list_defaults(info: TableInfo) -> Iterator[dict[str, Any]]:
    by_rule = _apply_rules(info)
    for option in list_options(Scope.TABLE):
        if option.key in info.options:
            continue
        if option.key in by_rule:
            yield _row(option, option.key, by_rule[option.key], _RULE)
        else:
            yield _row(option, option.key, option.format_default() or None, _DEFAULT)


def _apply_rules(info: TableInfo) -> dict[str, str]:
    """Values of options whose default depends on the table."""
    options, has_key = TableOptions(info.options), bool(info.schema.primary_key)
    return {
        "bucket": str(options.bucket_count(has_key)),
        "target-file-size": f"{options.target_file_size_bytes(has_key) >> 20} mb",
    } | ({"bucket-key": ",".join(info.schema.trimmed_key)} if has_key else {})


def _row(option: Option[Any] | None, key: str, value: str | None, source: str) -> dict[str, Any]:
    return {
        "key": key,
        # A broker's address can contain a password.
        "value": None if value is None else blot_out_forms(value),
        "source": source,
        "changeable": None if option is None else not option.fixed_because,
        "description": "This version of the console does not know it." if option is None else option.description,
    }
