"""`lakelog table rollback`: restores the rows of an earlier snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakelog.cli.input.arguments import Whole
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.text import format_count, plural

if TYPE_CHECKING:
    from lakelog.sdk.tables.table import Table


@click.command(
    cls=LakelogCommand,
    example=("lakelog table rollback shop.orders --to 7", "lakelog table rollback shop.orders --to release-1"),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--to", "state", required=True, metavar="N|TAG", help="A snapshot that is kept, or a tag.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--if-snapshot", type=Whole(0), metavar="N", help="Refuse if the table has changed since snapshot N.")
@pass_invocation
def rollback(invocation: Invocation, name: str, state: str, dry_run: bool, if_snapshot: int | None) -> None:
    """Restore the rows of an earlier snapshot.

    This makes a new snapshot: nothing is lost, and the rollback can be rolled back as well.
    """
    table = invocation.catalog.table(name)
    wanted = int(state) if state.isascii() and state.isdigit() else state
    if dry_run:
        _announce(invocation, table, wanted)
        return
    result = table.rollback_to(wanted, if_snapshot=if_snapshot)
    if result.snapshot_id is None:
        sentence = f"{table.name} has the state of {state} already; nothing was changed."
    else:
        sentence = f"{table.name} has the rows of {state} again, with snapshot {result.snapshot_id}."
    invocation.printer.done(sentence, {"table": table.name, "to": state, "snapshot_id": result.snapshot_id})


def _announce(invocation: Invocation, table: Table, state: int | str) -> None:
    """Says what a rollback would do; raises if it could not be done."""
    scan = table.scan(tag=state) if isinstance(state, str) else table.scan(snapshot_id=state)
    latest = table.info.latest_snapshot_id
    before, after = (_count_rows(table, each) for each in (latest, scan.snapshot_id))
    undone = latest - scan.snapshot_id
    sentence = (
        f"{table.name} would have the rows of snapshot {scan.snapshot_id} again: {plural(undone, 'later snapshot')} "
        f"would be undone, {format_count(after)} instead of {format_count(before)} stored rows would be live."
    )
    record = {"table": table.name, "to": scan.snapshot_id, "undone": undone, "rows_before": before, "rows": after}
    invocation.printer.done(sentence if undone else f"{table.name} is at {state}; nothing would be changed.", record)


def _count_rows(table: Table, snapshot_id: int) -> int:
    return sum(table.files(snapshot_id).column("rows").to_pylist())
