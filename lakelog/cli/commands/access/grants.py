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
# A dropped table is named by its uuid.
_WITH_DROPPED: Final = (*_COLUMNS[:3], Column("uuid", "UUID"), Column("dropped_at", "DROPPED AT"), *_COLUMNS[3:])


@click.command(cls=LakelogCommand, example=("lakelog grants", "lakelog grants shop.orders", "lakelog grants --to ann"))
@click.argument("scope", metavar="[DATABASE[.TABLE]]", required=False)
@click.option("--to", metavar="NAME", help="Only grants of this caller.  [default: without a database your own]")
@click.option("--uuid", metavar="UUID", help="The grants on the table with this uuid, also if it was dropped.")
@pass_invocation
def grants(invocation: Invocation, scope: str | None, to: str | None, uuid: str | None) -> None:
    """List the grants on a database or table, or those of a caller.

    Those on a database count for its tables as well, and are listed with the database. Those of a caller include grants
    on dropped tables: they count again if the table is restored, and go when it is purged. All callers can list their
    own grants, owners those on what they own. Only admins list all grants of another caller, with --to alone. An owner
    gives --uuid for a dropped table; `lakelog table list DATABASE --dropped` shows it.
    """
    records = [_describe(row) for row in invocation.catalog.grants.list(scope, to=to, uuid=uuid).to_pylist()]
    is_any_dropped = any(record["dropped_at"] for record in records)
    on = f" on {scope or uuid}" if scope or uuid else ""
    to_whom = f" to {to}" if to else "" if on else " to you"
    empty = f"There is no grant{on}{to_whom}. An owner or an admin makes one: lakelog grant LEVEL SCOPE --to NAME"
    invocation.printer.records(_WITH_DROPPED if is_any_dropped else _COLUMNS, records, empty=empty)


def _describe(row: dict[str, Any]) -> dict[str, Any]:
    """A grant's record. Pure."""
    times = {name: row[name] for name in ("granted_at", "dropped_at")}
    shown = {name: time and format_time(round(1000 * time.timestamp())) for name, time in times.items()}
    return {**row, "granted_by": row["granted_by"] or None, "uuid": row["uuid"] or None, **shown}
