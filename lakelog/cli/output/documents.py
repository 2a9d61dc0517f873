"""Records as text for programs: JSON, JSON lines, CSV or YAML. Pure.

A listing and a stream of rows have one record a line (JSON lines, CSV) or one element of a list each (YAML). So texts
of several records, one after the other, are the text of all of them, and a command prints them while it reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lakelog.cli.output.output_format import OutputFormat

_SPECIAL: Final = frozenset(',"\r\n')


def to_json(value: Any) -> str:
    """A JSON document, indented."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def to_json_line(value: Any) -> str:
    """A JSON document on a line of its own."""
    return json.dumps(value, ensure_ascii=False) + "\n"


def to_yaml(value: Any) -> str:
    """A YAML document in block style, keys in their order."""
    # Not above: other formats need no YAML.
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    # A wide line: folded texts are hard to read, and cost time.
    text: str = yaml.dump(
        value, Dumper=dumper, allow_unicode=True, sort_keys=False, default_flow_style=False, width=1_000_000
    )
    # A document that is one plain value ends with a mark.
    return text.removesuffix("...\n")


def to_csv_line(cells: Sequence[str | None]) -> str:
    """A line of CSV; None is an empty cell, an empty text is one in quotes.

    A line with a single cell is never empty, since readers pass over empty lines: None has quotes there, too.
    """
    return ",".join('""' if cell is None and len(cells) == 1 else _quote(cell) for cell in cells) + "\n"


def _quote(cell: str | None) -> str:
    if cell is None:
        return ""
    plain = cell and cell == cell.strip() and not _SPECIAL.intersection(cell)
    return cell if plain else '"' + cell.replace('"', '""') + '"'


def to_csv_cell(value: Any) -> str | None:
    """A value in a cell: texts as they are, None as None, everything else as JSON, also lists and objects."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def to_csv_lines(records: Iterable[Mapping[str, Any]], keys: Sequence[str]) -> str:
    """A line for each record, without a header."""
    return "".join(to_csv_line([to_csv_cell(record.get(key)) for key in keys]) for record in records)


def to_text(value: Any, output: OutputFormat) -> str:
    """A whole answer: an object, or a list of objects.

    Args:
        value: What JSON knows.
        output: The format; a table has no form for such a value, and JSON takes its place. Where records have lines of
            their own, a list has one for each object. CSV has a header with the keys of all objects; without an object
            it is empty.
    """
    if output in (OutputFormat.JSON, OutputFormat.TABLE):
        return to_json(value)
    if output is OutputFormat.YAML:
        return to_yaml(value)
    records = value if isinstance(value, list) else [value]
    if output is OutputFormat.JSONL:
        return "".join(map(to_json_line, records))
    if not records:
        return ""
    keys = list(dict.fromkeys(key for record in records for key in record))
    return to_csv_line(keys) + to_csv_lines(records, keys)
