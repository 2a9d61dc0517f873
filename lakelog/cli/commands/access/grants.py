"""`lakelog grants`: list who may do what with a database or table, or what a caller may do."""

from __future__ import annotations

from typing import Any, Final

import click

from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_time

_COLUMNS: Final = (
    Column("scope", "DATABASE OR TABLE", may_cut=True),
    Column("principal", "CALLER", may_cut=True),
    Column("level", "LEVEL"),
    Column("granted_by", "GRANTED BY", may_cut=True),
    Column("granted_at", "GRANTED AT"),
)


@click.command(cls=LakelogCommand, example=("lakelog grants", "lakelog grants shop.orders", "lakelog grants --to ann"))
@click.argument("scope", metavar="[DATABASE[.TABLE]]", required=False)
@click.option("--to", metavar="NAME", help="Only grants of this caller.  [default: without a database your own]")
@pass_invocation
def grants(invocation: Invocation, scope: str | None, to: str | None) -> None:
    """List the grants on a database or table, or those of a caller.

    Those on a database count for its tables as well, and are listed with the database. For admins and owners; all
    callers can list their own.
    """
    records = [_describe(row) for row in invocation.catalog.grants.list(scope, to=to).to_pylist()]
    on = f" on {scope}" if scope else ""
    to_whom = f" to {to}" if to else "" if scope else " to you"
    empty = f"There is no grant{on}{to_whom}. An owner or an admin makes one: lakelog grant LEVEL SCOPE --to NAME"
    invocation.printer.records(_COLUMNS, records, empty=empty)


def _describe(row: dict[str, Any]) -> dict[str, Any]:
    """A grant's record. Pure."""
    granted_at = format_time(round(1000 * row["granted_at"].timestamp()))
    return {**row, "granted_by": row["granted_by"] or None, "granted_at": granted_at}
