"""`lakelog grant`: let a caller read, write or own a database or table."""

from __future__ import annotations

import click

from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.format.tables.grant import GrantLevel

LEVELS = click.Choice([level.name.lower() for level in GrantLevel])


@click.command(
    cls=LakelogCommand,
    example=("lakelog grant owner shop --to team-a", "lakelog grant reader shop.orders --to ann"),
)
@click.argument("level", type=LEVELS, metavar="LEVEL")
@click.argument("scope", metavar="DATABASE[.TABLE]")
@click.option("--to", required=True, metavar="NAME", help="The caller, as the metastore knows it by its token.")
@pass_invocation
def grant(invocation: Invocation, level: str, scope: str, to: str) -> None:
    """Let a caller read, write or own a database or a table.

    LEVEL is reader, writer or owner. A grant on a database counts for all its tables, also for later ones. A reader
    reads, a writer also changes rows, an owner also alters, drops and grants. A caller that has another level there has
    this one from now on. For admins and owners.
    """
    counts = invocation.catalog.grants.grant(level, scope, to)
    record = {"scope": scope, "principal": to, "level": level, "has_effect": counts}
    invocation.printer.done(f"{to} is {level} of {scope} now.", record)
    if not counts:
        invocation.printer.note(
            "It has no effect yet: this metastore has no tokens and identifies no callers, so each may do everything. "
            "Start it with --token-file."
        )
