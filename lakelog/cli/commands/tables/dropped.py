"""`lakelog table restore` and `lakelog table list --dropped`: dropped tables, as long as they can be restored."""

from __future__ import annotations

from typing import Final

import click

from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_time, plural
from lakelog.sdk.maintenance.dropped import restore_table

_COLUMNS: Final = (
    Column("name", "TABLE", may_cut=True),
    Column("uuid", "UUID"),
    Column("dropped_at", "DROPPED AT"),
    Column("kept_until", "KEPT UNTIL"),
    Column("restorable", "RESTORABLE", lambda is_so: "yes" if is_so else "no"),
)


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog table restore shop.orders",
        "lakelog table restore shop.orders --as shop.orders_before",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option(
    "--uuid", metavar="UUID", help="The table's uuid, if several of this name were dropped.  [default: the last one]"
)
@click.option("--as", "as_name", metavar="DATABASE.TABLE", help="Its new name.  [default: the old one]")
@pass_invocation
def restore(invocation: Invocation, name: str, uuid: str | None, as_name: str | None) -> None:
    """Restore a dropped table, with all its snapshots.

    Its options, consumers and the progress of its writers come back, too. `lakelog table list --dropped` shows until
    when it can be restored; then compactors delete its files.
    """
    restored = restore_table(invocation.metastore, name, uuid, as_name)
    table = restored.table
    called = f" as {table.name}" if as_name is not None else ""
    printer = invocation.printer
    printer.done(
        f"Restored table {name}{called}, which was dropped at {format_time(restored.dropped_at_ms)}.",
        {
            "table": str(table.name),
            "uuid": table.table_uuid,
            "dropped_at": format_time(restored.dropped_at_ms),
            "snapshot_id": table.latest_snapshot_id or None,
            "others": restored.others,
        },
    )
    if restored.others and uuid is None:
        printer.note(
            f"{plural(restored.others, 'other table')} of this name can be restored: choose by --uuid; lakelog table "
            f"list {name.partition('.')[0]} --dropped shows them."
        )


def list_dropped(invocation: Invocation, database: str | None) -> None:
    """Lists dropped tables, the newest first."""
    records = [
        {
            "name": str(each.name),
            "uuid": each.table_uuid,
            "dropped_at": format_time(each.dropped_at_ms),
            "kept_until": format_time(each.kept_until_ms),
            "restorable": not each.is_purged,
            "location": each.location,
        }
        for each in invocation.metastore.list_dropped_tables(database or "")
    ]
    where = f" of database {database}" if database else ""
    invocation.printer.records(_COLUMNS, records, empty=f"No dropped table{where} can be restored.")
