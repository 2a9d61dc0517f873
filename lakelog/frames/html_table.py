"""Rows as HTML for notebooks: escaped, and only as many as a person reads."""

from __future__ import annotations

import html
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Final, Protocol, cast

import pyarrow as pa

from lakelog.errors import LakelogError

MAX_ROWS: Final = 20
MAX_COLUMNS: Final = 30
MAX_CHARACTERS: Final = 200
"""Length of one value; longer values are cut."""

FIRST_ROWS: Final = 10
"""Rows of a read, which a notebook may begin only to show it."""


class _Readable(Protocol):
    """A read that is planned."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Reads the rows batch by batch; a generator."""


def show_first(plan: Callable[[], _Readable], title: str) -> str:
    """Returns a title and the first rows of a read, or the reason why there are none.

    Args:
        plan: Plans the read.
        title: Text above the table.
    """
    try:
        return to_html(_read_first(plan()), title, is_all=False)
    except LakelogError as error:
        return _describe_error(title, error)


def _read_first(read: _Readable) -> pa.Table:
    found: list[pa.RecordBatch] = []
    left = FIRST_ROWS
    # Closed here, so that a snapshot that is leased for the read is released at once.
    with closing(cast(Generator[pa.RecordBatch, None, None], read.to_batches())) as batches:
        for batch in batches:
            found.append(batch.slice(0, left))
            left -= found[-1].num_rows
            if left == 0:
                break
    return pa.Table.from_batches(found, read.schema)


def to_html(rows: pa.Table, title: str, *, is_all: bool = True) -> str:
    """Returns a title and a table of the first rows and columns.

    Args:
        rows: The rows to show.
        title: Text above the table.
        is_all: Whether these are all the rows, so that the page states their number.
    """
    shown = rows.slice(0, MAX_ROWS).select(rows.schema.names[:MAX_COLUMNS] if _are_distinct(rows) else _first(rows))
    header = "".join(
        f"<th>{_escape(field.name)}<br><small>{_escape(str(field.type))}</small></th>" for field in shown.schema
    )
    columns = [_to_texts(column) for column in shown.columns]
    body = "".join(f"<tr>{_to_cells(texts)}</tr>" for texts in zip(*columns, strict=True))
    notes = []
    if is_all:
        notes.append(f"{rows.num_rows} rows" + (f", the first {MAX_ROWS} shown" if rows.num_rows > MAX_ROWS else ""))
    else:
        notes.append(f"{shown.num_rows} rows shown")
    if rows.num_columns > MAX_COLUMNS:
        notes.append(f"{MAX_COLUMNS} of {rows.num_columns} columns shown")
    return (
        f"<div><p><code>{_escape(title, 1000)}</code></p><table><thead><tr>{header}</tr></thead>"
        f"<tbody>{body}</tbody></table><p>{'; '.join(notes)}</p></div>"
    )


def _describe_error(title: str, error: BaseException) -> str:
    """Returns a title and the reason why there are no rows."""
    return f"<div><p><code>{_escape(title, 1000)}</code></p><p>{_escape(str(error), 1000)}</p></div>"


def _are_distinct(rows: pa.Table) -> bool:
    return len(set(rows.schema.names)) == rows.num_columns


def _first(rows: pa.Table) -> list[int]:
    return list(range(min(rows.num_columns, MAX_COLUMNS)))


def _to_texts(column: pa.ChunkedArray) -> list[str]:
    texts = []
    for value in column:
        try:
            texts.append("NULL" if not value.is_valid else str(value.as_py(maps_as_pydicts="lossy")))
        except (ValueError, OverflowError):
            # Dates and times that Python cannot represent.
            texts.append(str(value))
    return texts


def _to_cells(texts: Iterable[str]) -> str:
    return "".join(f"<td>{_escape(text)}</td>" for text in texts)


def _escape(text: str, longest: int = MAX_CHARACTERS) -> str:
    return html.escape(text if len(text) <= longest else text[: longest - 3] + "...")
