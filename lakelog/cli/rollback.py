"""`lakelog table rollback`: an earlier state becomes the state again."""

from __future__ import annotations

import click

from lakelog.cli.arguments import Whole
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation


@click.command(
    cls=LakelogCommand,
    example=("lakelog table rollback shop.orders --to 7", "lakelog table rollback shop.orders --to release-1"),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--to", "state", required=True, metavar="N|TAG", help="A snapshot that is kept, or its tag.")
@click.option("--if-snapshot", type=Whole(0), metavar="N", help="Refuse if the table has changed since snapshot N.")
@pass_invocation
def rollback(invocation: Invocation, name: str, state: str, if_snapshot: int | None) -> None:
    """Make the rows of an earlier snapshot the rows again.

    That is one more snapshot: nothing is lost, and it can be rolled back as well.
    """
    table = invocation.catalog.table(name)
    is_number = state.isascii() and state.isdigit()
    result = table.rollback_to(int(state) if is_number else state, if_snapshot=if_snapshot)
    if result.snapshot_id is None:
        sentence = f"{table.name} has the state of {state} already; nothing was changed."
    else:
        sentence = f"{table.name} is as it was at {state} again, by snapshot {result.snapshot_id}."
    invocation.printer.done(sentence, {"table": table.name, "to": state, "snapshot_id": result.snapshot_id})
