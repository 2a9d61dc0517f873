"""Why records are not valid Debezium messages whose rows fit: computed only for the few bad ones."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from lakelog.format.types.sql_types import to_sql_type
from lakelog.log.codecs import read_debezium_changes
from lakelog.records.bad_records import EXPLAINED_BYTES, to_printable

NO_MESSAGE: Final = (
    "it is no message of Debezium: an object in JSON with 'op' (c, r, u or d) and the row that this needs ('after', of "
    "d 'before')"
)
_PROBE: Final = pa.schema([pa.field("lakelog: no such field", pa.string())])
_UNIT: Final = "; say the unit of such numbers, which come without a schema, by source.time_unit"
_SHOWN: Final = 100


def find_faults(values: pa.Array, schema: pa.Schema, time_unit: str | None) -> list[tuple[str | None, str]]:
    """The column that does not fit, and the reason, for each record. Pure.

    Args:
        values: The records that could not be read with all columns.
        schema: These columns.
        time_unit: The unit with which they were read.

    Returns:
        No column if the message itself is not valid.
    """
    no_message = read_debezium_changes(values, _PROBE, time_unit=time_unit).wrong
    wrong = [(field, read_debezium_changes(values, pa.schema([field]), time_unit=time_unit).wrong) for field in schema]
    found: list[tuple[str | None, str]] = []
    # A loop over bad records, of which there are few.
    for place in range(len(values)):
        field = next((field for field, mask in wrong if mask[place]), None)
        if no_message[place] or field is None:
            found.append((None, NO_MESSAGE))
            continue
        shown = _show(values[place].as_py(), field.name)
        remedy = _UNIT if time_unit is None and pa.types.is_timestamp(field.type) and _is_number(shown) else ""
        found.append((field.name, f"column '{field.name}' has {shown}, but needs {to_sql_type(field.type)}{remedy}"))
    return found


def _is_number(shown: str) -> bool:
    return shown.removeprefix("-").isdigit()


def _show(value: bytes, name: str) -> str:
    """The text that a message has for a column."""
    if len(value) > EXPLAINED_BYTES:
        return "a value"
    try:
        message: Any = json.loads(value.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return "a value"
    for part in ("payload", "after", "before"):
        inner = message.get(part) if isinstance(message, dict) else None
        if part == "payload":
            message = inner if isinstance(inner, dict) else message
        elif isinstance(inner, dict) and inner.get(name) is not None:
            try:
                text = to_printable(json.dumps(inner[name], ensure_ascii=False))
            except RecursionError:
                return "a value"
            return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return "a value"
