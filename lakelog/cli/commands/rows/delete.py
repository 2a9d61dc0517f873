"""`lakelog delete`: deletes the rows of a table that fulfil a condition."""

from __future__ import annotations

import click

from lakelog.cli.input.confirmation import confirm
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.text import plural


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog delete shop.orders --where 'customer = 17'",
        "lakelog delete shop.orders --where \"dt < DATE '2024-01-01'\" --dry-run",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option(
    "--where", required=True, metavar="CONDITION", help="An SQL condition, as --filter of lakelog scan has it."
)
@click.option("--dry-run", is_flag=True, help="Only count the rows.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def delete(invocation: Invocation, name: str, where: str, dry_run: bool, yes: bool) -> None:
    """Delete the rows that fulfil a condition, in one commit.

    Earlier snapshots still have them; lakelog table rollback brings them back.
    """
    table = invocation.catalog.table(name)
    count = table.count(where)
    if dry_run:
        invocation.printer.done(
            f"{plural(count, 'row')} of {table.name} would be deleted.",
            {"table": table.name, "deleted_rows": count, "dry_run": True},
        )
        return
    if count:
        confirm(invocation, f"Delete {plural(count, 'row')} of {table.name}?", yes, declined="Nothing was deleted.")
    result = table.delete_where(where)
    shown = "" if result.snapshot_id is None else f" with snapshot {result.snapshot_id}"
    invocation.printer.done(
        f"Deleted {plural(result.deleted_rows or 0, 'row')} of {table.name}{shown}.",
        {"table": table.name, "deleted_rows": result.deleted_rows, "snapshot_id": result.snapshot_id},
    )
