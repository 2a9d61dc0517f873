"""`lakelog consumers`: named readers of a table and where they are."""

from __future__ import annotations

from typing import Any, Final

import click

from lakelog.cli.arguments import Whole
from lakelog.cli.confirmation import confirm
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.printer import Column
from lakelog.cli.text import format_count, format_time
from lakelog.errors import InvalidArgument

COLUMNS: Final = (
    Column("consumer", "CONSUMER", may_cut=True),
    Column("snapshot_id", "DONE", format_count, right=True),
    Column("behind", "BEHIND", format_count, right=True),
    Column("used_at", "USED"),
    Column("expires_at", "EXPIRES"),
    Column("expired", "EXPIRED", lambda expired: "yes" if expired else "", style=lambda expired: "red"),
    Column("holder", "READ BY", may_cut=True),
)


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog consumers shop.orders",
        "lakelog consumers shop.orders --reset etl --to 7",
        "lakelog consumers shop.orders --delete etl",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--reset", metavar="CONSUMER", help="Let it go on behind the snapshot that --to names.")
@click.option("--to", type=Whole(0), metavar="N", help="With --reset: a snapshot; 0: it begins with the first.")
@click.option("--delete", metavar="CONSUMER", help="Forget it, and what is kept for it.")
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@pass_invocation
def consumers(
    invocation: Invocation, name: str, reset: str | None, to: int | None, delete: str | None, yes: bool
) -> None:
    """List a table's consumers, or reset or delete one.

    A consumer is a named reader whose position the metastore keeps. BEHIND says how many snapshots it has yet to do.
    It keeps what it has yet to do from expiring, until nobody has used it for 'consumer.expiration-time': then it is
    EXPIRED, and only its position is kept. READ BY is empty where nobody reads. Whoever reads under the name of one
    that is reset or deleted is stopped with an error.
    """
    if (reset is None) != (to is None):
        raise InvalidArgument("--reset and --to belong together: give the consumer and the snapshot.")
    if reset is not None and delete is not None:
        raise InvalidArgument("--reset and --delete contradict each other. Give one of them.")
    table = invocation.catalog.table(name)
    if reset is not None and to is not None:
        table.consumers.reset(reset, to)
        invocation.printer.done(
            f"Consumer {reset} of {table.name} goes on behind snapshot {to}.", {"consumer": reset, "snapshot_id": to}
        )
        return
    if delete is not None:
        # One that is not there is an error, whatever the answer.
        if delete in table.consumers.list().column("id").to_pylist():
            confirm(invocation, f"Forget consumer {delete} of {table.name}?", yes)
        table.consumers.delete(delete)
        invocation.printer.done(f"Forgot consumer {delete} of {table.name}.", {"consumer": delete, "deleted": True})
        return
    latest = table.info.latest_snapshot_id
    records = [_describe(row, latest) for row in table.consumers.list().to_pylist()]
    invocation.printer.records(COLUMNS, records, empty=f"{table.name} has no consumers.")


def _describe(row: dict[str, Any], latest: int) -> dict[str, Any]:
    """A consumer's record. Pure."""
    names = ("used_at", "expires_at")
    times = {name: None if row[name] is None else format_time(round(1000 * row[name].timestamp())) for name in names}
    return {
        "consumer": row["id"],
        "snapshot_id": row["snapshot_id"],
        "behind": None if row["snapshot_id"] is None else latest - row["snapshot_id"],
        **times,
        "expired": row["expired"],
        "holder": row["holder"],
    }
