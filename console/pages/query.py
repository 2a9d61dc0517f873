"""The query page: a statement that reads, its rows, and an address that leads back to them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.cli.output.json_rows import to_json_value
from lakelog.cli.output.text import clean_text, plural
from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.errors import (
    InvalidArgument,
    LakelogError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    SnapshotExpired,
)
from lakelog.health.problem import say_remedy
from lakelog.privacy.redaction import blot_out

from ..querying.running import QueryRows, run_statement
from .page import Column, Kind, Listing, Page, PageRequest
from .rights import who_is

_EXAMPLES: Final = (
    "SELECT * FROM sys.tables ORDER BY bytes DESC LIMIT 10",
    "SELECT * FROM shop.orders VERSION AS OF 5 WHERE id < 100",
    "SELECT * FROM shop.orders$snapshots ORDER BY id DESC",
    "DESCRIBE shop.orders",
)

_AWAY: Final = "The metastore does not answer. Run the statement again in a moment."


def query(request: PageRequest) -> Page:
    """The form and, if the address has a statement, its rows."""
    text = request.query.get("sql", "").strip()
    database = request.query.get("database", "").strip()
    settings = request.settings
    parts: dict[str, Any] = {}
    problem, status = "", HTTPStatus.OK
    if text:
        began_s = request.clock.monotonic_s()
        try:
            found = run_statement(
                request.catalog,
                text,
                database or None,
                # Those whom the metastore does not know run nothing here, not even a statement without a table.
                caller=who_is(request.catalog).name,
                max_rows=settings.max_query_rows,
                seconds=settings.query_seconds,
                left=request.left,
            )
        except LakelogError as error:
            if request.query.get("as") or not _is_about_statement(error):
                raise
            problem, status = blot_out(error.message), HTTPStatus.BAD_REQUEST
            if error.retryable:
                status = HTTPStatus.SERVICE_UNAVAILABLE
                # The message has the metastore's address, which is not for everybody who reaches this page.
                problem = _AWAY if "target" in error.metadata else problem
        else:
            took_s = request.clock.monotonic_s() - began_s
            parts["rows"] = to_listing(found, took_s, settings.max_query_rows)
    words = ["sql", *(["--database", database] if database else []), "--execute", text]
    return Page(
        "query.html",
        "Query",
        parts,
        area="query",
        extra={
            "sql": text,
            "database": database,
            "problem": problem,
            "examples": _EXAMPLES,
            "limits": settings,
            "command": say_remedy(*words) if text else "",
        },
        status=status,
    )


def _is_about_statement(error: LakelogError) -> bool:
    """Whether the error belongs beside the statement, and is not about the caller or the service."""
    if error.reason == UNAUTHENTICATED:
        return False
    # While the metastore is away, the statement stays to be run again.
    return error.retryable or isinstance(
        error, InvalidArgument | NotFound | PermissionDenied | ResourceExhausted | SnapshotExpired
    )


def to_listing(found: QueryRows, took_s: float, max_rows: int) -> Listing:
    """The rows as a table. Pure."""
    names = [_to_key(name) for name in found.rows.schema.names]
    columns = [
        Column(key, clean_text(field.name), _kind(field.type), str(field.type))
        for key, field in zip(names, found.rows.schema, strict=True)
    ]
    values = [_to_values(column) for column in found.rows.columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    note = f"{plural(len(rows), 'row')} in {took_s:.2f} s."
    if found.is_cut:
        note = f"The first {note[:-1]}; there are more. This page shows {max_rows:,} at most, and 16 MiB."
    return Listing("rows", "Rows", columns, rows, "There are no rows.", note=note)


def _to_key(name: str) -> str:
    """The key of a column in rows; one of them means something else there."""
    return "_links_" if name == "_links" else name


def _to_values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return [to_json_value(value, column.type) for value in column.to_pylist()]
    except (ValueError, OverflowError):
        # A time that Python has no value for.
        return pc.cast(column, pa.string()).to_pylist()


def _kind(data_type: pa.DataType) -> Kind:
    if pt.is_integer(data_type) or pt.is_floating(data_type) or pt.is_decimal(data_type):
        return "number"
    return "json" if pt.is_nested(data_type) else "text"
