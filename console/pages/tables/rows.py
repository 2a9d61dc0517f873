"""Arrow tables as rows of listings. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from lakelog.cli.output.json_rows import to_json_lines

from ..page import Column

LONGEST_VALUE: Final = 10_000
"""Characters of a value of a row, also in JSON: rows can have values of megabytes, and a page is for people."""

_LINKS: Final = "_links"


def to_rows(found: pa.Table) -> list[dict[str, Any]]:
    """The rows of a system table: times in milliseconds since 1970, maps as objects."""
    columns = [
        column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        if pa.types.is_timestamp(column.type)
        else column
        for column in found.columns
    ]
    rows = pa.table(columns, names=found.column_names).to_pylist(maps_as_pydicts="lossy")
    return [dict(row) for row in rows]


def to_value_columns(names: Sequence[str]) -> list[Column]:
    """The columns of rows of a user's table. A column can have any name, also the one that holds links."""
    keys: list[str] = []
    for name in names:
        key = name
        while key == _LINKS or key in keys:
            key += "_"
        keys.append(key)
    return [Column(key, name, "code") for key, name in zip(keys, names, strict=True)]


def to_value_rows(rows: pa.Table, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Rows of a user's table as JSON knows them; long values are cut."""
    keys = [column.key for column in columns]
    named = rows.rename_columns([str(place) for place in range(rows.num_columns)])
    return [
        dict(zip(keys, (cut(value) for value in json.loads(line).values()), strict=True))
        for batch in named.to_batches()
        # Not by splitlines(), which also splits at characters that values may contain, such as U+2028.
        for line in to_json_lines(batch).split("\n")
        if line
    ]


def cut(value: Any) -> Any:
    """A value of bounded length."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= LONGEST_VALUE:
        return value
    return f"{text[:LONGEST_VALUE]} … ({len(text):,} characters)"
