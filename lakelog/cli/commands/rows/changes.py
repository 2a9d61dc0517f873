"""`lakelog changes`: the changes of some snapshots."""

from __future__ import annotations

import click

from lakelog.cli.commands.rows.tail import TABLE_LIMIT
from lakelog.cli.input.arguments import (
    Whole,
    split_names,
    takes_change_condition,
    takes_columns,
    takes_limit,
    takes_raw,
)
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.change_output import ChangePrinter, report_skipped
from lakelog.reads.complete_changes import DEFAULT_TIMEOUT_S


@click.command(
    cls=LakelogCommand,
    example=("lakelog changes shop.orders --after 3 --until 7", "lakelog changes shop.orders --after 3 --output json"),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option(
    "--after", type=Whole(0), metavar="N", help="Only changes after snapshot N.  [default: all that are retained]"
)
@click.option(
    "--until", type=Whole(0), metavar="N", help="Only changes up to and with snapshot N.  [default: the newest]"
)
@takes_columns
@takes_change_condition
@takes_limit(f"Stop after so many rows; 0: no limit.  [default: {TABLE_LIMIT} in tables, else 0]")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    help="How long to wait for changelogs that a compactor still has to make.",
)
@takes_raw
@pass_invocation
def changes(
    invocation: Invocation,
    name: str,
    after: int | None,
    until: int | None,
    columns: str | None,
    condition: str | None,
    limit: int | None,
    timeout: float,
    raw: bool,
) -> None:
    """Show the changes of some snapshots.

    Each row has its kind and its snapshot, as in `lakelog tail`, which also waits for new changes. A warning names
    snapshots that overwrote rows: their changes are not shown.
    """
    table = invocation.catalog.table(name)
    scan = table.changes(after, until, columns=split_names(columns), filter=condition, raw=raw, timeout=timeout)
    if limit is None:
        limit = 0 if invocation.printer.for_programs else TABLE_LIMIT
    report_skipped(invocation, scan.skipped_snapshots)
    output = ChangePrinter(invocation, limit)
    with invocation.printer.paging():
        output.print(scan.to_batches())
    if output.row_count == 0:
        invocation.printer.say(f"{table.name} has no changes in this range.")
    output.finish(follow=False)
