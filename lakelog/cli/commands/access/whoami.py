"""`lakelog whoami`: who the metastore takes you for, and what you may do."""

from __future__ import annotations

from typing import Any, Final

import click

from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_time

_FACTS: Final = (
    Column("name", "NAME"),
    Column("role", "ROLE"),
    Column("sign_in", "SIGNED IN BY"),
    Column("until", "UNTIL"),
)
_RIGHTS: Final = (Column("table", "TABLE", may_cut=True), Column("level", "LEVEL"))


@click.command(cls=LakelogCommand, example=("lakelog whoami", "lakelog whoami shop.orders"))
@click.argument("tables", metavar="[DATABASE.TABLE]...", nargs=-1)
@pass_invocation
def whoami(invocation: Invocation, tables: tuple[str, ...]) -> None:
    """Show your name, your role, and how you signed in; and what you may do with tables.

    An owner grants to the name that is shown here. A role counts at all tables; a user has only what is granted:
    `lakelog grants` lists that.
    """
    found = invocation.catalog.whoami(tables)
    record: dict[str, Any] = {
        "name": found.name or None,
        "role": found.role.value,
        "sign_in": found.sign_in.value,
        "until": format_time(found.until_ms) if found.until_ms else None,
        "tables": {name: level.name.lower() for name, level in found.levels.items()},
    }
    printer = invocation.printer
    if printer.for_programs:
        printer.document(record)
        return
    shown = record | {"name": found.name or "no name: this metastore identifies no callers"}
    printer.facts(_FACTS, shown)
    if tables:
        rights = [{"table": name, "level": record["tables"].get(name, "none")} for name in tables]
        printer.records(_RIGHTS, rights, empty="")
