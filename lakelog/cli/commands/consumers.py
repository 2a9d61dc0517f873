"""`lakelog consumers`: named readers of a table and their positions."""

from __future__ import annotations

from typing import Any, Final

import click

from lakelog.cli.input.arguments import Whole
from lakelog.cli.input.confirmation import confirm
from lakelog.cli.invocation import Invocation, LakelogGroup, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_count, format_time

COLUMNS: Final = (
    Column("consumer", "CONSUMER", may_cut=True),
    Column("snapshot_id", "DONE", format_count, right=True),
    Column("behind", "BEHIND", format_count, right=True),
    Column("used_at", "USED"),
    Column("expires_at", "EXPIRES"),
    Column("expired", "EXPIRED", lambda expired: "yes" if expired else "", style=lambda expired: "red"),
    Column("holder", "READ BY", may_cut=True),
)


@click.group(cls=LakelogGroup)
def consumers() -> None:
    """List, reset and delete the named readers of tables."""


@consumers.command("list", example=("lakelog consumers list shop.orders",))
@click.argument("name", metavar="DATABASE.TABLE")
@pass_invocation
def list_(invocation: Invocation, name: str) -> None:
    """List a table's consumers.

    BEHIND is the number of snapshots that a consumer has not read yet. These snapshots do not expire, until the
    consumer was unused for 'consumer.expiration-time'. Then it is EXPIRED, and only its position is kept. READ BY is
    empty while no program reads under its name.
    """
    table = invocation.catalog.table(name)
    latest = table.info.latest_snapshot_id
    records = [_describe(row, latest) for row in table.consumers.list().to_pylist()]
    invocation.printer.records(COLUMNS, records, empty=f"{table.name} has no consumers.")


@consumers.command(example=("lakelog consumers reset shop.orders etl --to 7",))
@click.argument("name", metavar="DATABASE.TABLE")
@click.argument("consumer")
@click.option(
    "--to",
    type=Whole(0),
    required=True,
    metavar="N",
    help="The snapshot after which it goes on; 0: it begins with the first.",
)
@pass_invocation
def reset(invocation: Invocation, name: str, consumer: str, to: int) -> None:
    """Set the position of a consumer, back or forth: it goes on after a snapshot.

    A program that reads under its name stops with an error.
    """
    table = invocation.catalog.table(name)
    table.consumers.reset(consumer, to)
    invocation.printer.done(
        f"Consumer {consumer} of {table.name} goes on after snapshot {to}.", {"consumer": consumer, "snapshot_id": to}
    )


@consumers.command(example=("lakelog consumers delete shop.orders etl",))
@click.argument("name", metavar="DATABASE.TABLE")
@click.argument("consumer")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def delete(invocation: Invocation, name: str, consumer: str, yes: bool) -> None:
    """Forget a consumer; its snapshots may expire then.

    A program that reads under its name stops with an error.
    """
    table = invocation.catalog.table(name)
    # A missing consumer is an error, whatever the answer.
    if consumer in table.consumers.list().column("id").to_pylist():
        confirm(invocation, f"Forget consumer {consumer} of {table.name}?", yes, declined="Nothing was forgotten.")
    table.consumers.delete(consumer)
    invocation.printer.done(f"Forgot consumer {consumer} of {table.name}.", {"consumer": consumer, "deleted": True})


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
