"""What examples and notebooks print: rows as a table, and claims that are checked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lakelog.frames.html_table import to_html

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakelog.annotations import ArrowStream

    Shown: TypeAlias = ArrowStream | pa.Table | pa.RecordBatch | Sequence[Mapping[str, object]]

MAX_ROWS = 20


def show(rows: Shown, title: str = "") -> None:
    """Shows rows as a table: in a notebook as HTML, elsewhere as text; the first 20 of them.

    Args:
        rows: A table, a scan, a result of SQL, any other object with the Arrow C stream interface, or dicts.
        title: A line above it.
    """
    table = pa.Table.from_pylist([dict(row) for row in rows]) if isinstance(rows, list) else _read_first(rows)
    if "ipykernel" in sys.modules:
        from IPython.display import HTML, display

        display(HTML(to_html(table, title)))
        return
    if title:
        print(f"\n{title}:")
    print(_to_text(table.slice(0, MAX_ROWS)))
    if table.num_rows > MAX_ROWS:
        print("... and more rows")


def check(claim: str, found: object, expected: object = True) -> None:
    """Checks what an example claims, and prints it.

    Args:
        claim: A sentence, for instance `the order is gone`.
        found: What is so.
        expected: What it must be equal to.

    Raises:
        AssertionError: It is not; with both.
    """
    if found != expected:
        raise AssertionError(f"Check that {claim}: it is not so.\n  found:    {found!r}\n  expected: {expected!r}")
    print(f"  ✓ {claim}", flush=True)


def _read_first(rows: object) -> pa.Table:
    """The first rows, one more than are shown if there are more; what is left is not read."""
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    batches: list[pa.RecordBatch] = []
    with pa.RecordBatchReader.from_stream(rows) as reader:
        while sum(batch.num_rows for batch in batches) <= MAX_ROWS:
            try:
                batches.append(reader.read_next_batch())
            except StopIteration:
                break
        return pa.Table.from_batches(batches, reader.schema).slice(0, MAX_ROWS + 1)


def _to_text(table: pa.Table) -> str:
    """Columns side by side, numbers to the right."""
    texts = [[_to_cell(value) for value in column.to_pylist(maps_as_pydicts="lossy")] for column in table.columns]
    titles = [_to_cell(name) for name in table.schema.names]
    widths = [max(map(len, [title, *column])) for title, column in zip(titles, texts, strict=True)]
    lines = []
    for row in [titles, *zip(*texts, strict=True)]:
        cells = [
            text.rjust(width) if _is_number(field.type) else text.ljust(width)
            for text, width, field in zip(row, widths, table.schema, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def _to_cell(value: object) -> str:
    """One line that no terminal takes for a command."""
    if value is None:
        return "NULL"
    return "".join(letter if letter.isprintable() else "�" for letter in str(value))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
