"""`lakelog tags`: named snapshots of a table."""

from __future__ import annotations

from typing import Any, Final

import click

from lakelog.cli.input.arguments import Whole
from lakelog.cli.input.confirmation import confirm
from lakelog.cli.invocation import Invocation, LakelogGroup, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_count, format_time

_COLUMNS: Final = (
    Column("tag", "TAG", may_cut=True),
    Column("snapshot_id", "SNAPSHOT", right=True),
    Column("committed_at", "COMMITTED AT"),
    Column("rows", "STORED ROWS", format_count, right=True),
    Column("created_at", "TAGGED AT"),
)


@click.group(cls=LakelogGroup)
def tags() -> None:
    """Name snapshots; a snapshot with a name does not expire."""


@tags.command("list", example=("lakelog tags list shop.orders",))
@click.argument("name", metavar="DATABASE.TABLE")
@pass_invocation
def list_(invocation: Invocation, name: str) -> None:
    """List a table's tags."""
    table = invocation.catalog.table(name)
    records = [_describe(row) for row in table.tags.list().to_pylist()]
    invocation.printer.records(
        _COLUMNS, records, empty=f"{table.name} has no tags. Make one: lakelog tags create {table.name} TAG"
    )


@tags.command(
    example=("lakelog tags create shop.orders release-1", "lakelog tags create shop.orders audit --snapshot 7")
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.argument("tag")
@click.option("--snapshot", type=Whole(1), metavar="N", help="The snapshot to name.  [default: the newest]")
@pass_invocation
def create(invocation: Invocation, name: str, tag: str, snapshot: int | None) -> None:
    """Give a snapshot the name TAG: letters, digits, '_', '-' and '.', not digits only."""
    table = invocation.catalog.table(name)
    snapshot_id = table.tags.create(tag, snapshot)
    invocation.printer.done(
        f"Snapshot {snapshot_id} of {table.name} has the tag {tag}.", {"tag": tag, "snapshot_id": snapshot_id}
    )


@tags.command(example=("lakelog tags delete shop.orders release-1",))
@click.argument("name", metavar="DATABASE.TABLE")
@click.argument("tag")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def delete(invocation: Invocation, name: str, tag: str, yes: bool) -> None:
    """Delete the tag TAG; its snapshot may expire then."""
    table = invocation.catalog.table(name)
    # A missing tag is an error, whatever the answer.
    if tag in table.tags.list().column("name").to_pylist():
        confirm(invocation, f"Delete tag {tag} of {table.name}?", yes, declined="Nothing was deleted.")
    table.tags.delete(tag)
    invocation.printer.done(f"Deleted tag {tag} of {table.name}.", {"tag": tag, "deleted": True})


def _describe(row: dict[str, Any]) -> dict[str, Any]:
    """A tag's record. Pure."""
    times = {name: format_time(round(1000 * row[name].timestamp())) for name in ("committed_at", "created_at")}
    return {"tag": row["name"], "snapshot_id": row["snapshot_id"], **times, "rows": row["rows"]}
