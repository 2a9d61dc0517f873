"""`lakelog table expire`: expires snapshots that are no longer needed."""

from __future__ import annotations

from typing import Any

import click

from lakelog.arguments import parse_table_name
from lakelog.cli.input.arguments import Whole
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_bytes, format_count, format_time, parse_time
from lakelog.sdk.maintenance.expiry import MAX_RETAINED, ExpiryResult, describe_snapshot_lease, expire_snapshots


def _format_retained(snapshot_id: int | None) -> str:
    return "none yet" if snapshot_id is None else str(snapshot_id)


_FACTS = (
    Column("table", "Table"),
    Column("snapshots", "Snapshots expired", format_count),
    Column("changelogs", "Changelogs expired", format_count),
    Column("files", "Files to be deleted", format_count),
    Column("bytes", "Their size", format_bytes),
    Column("first_kept", "First one kept", _format_retained),
    Column("tagged", "Kept by tags", lambda ids: ", ".join(map(str, ids[:20])) + (", ..." if len(ids) > 20 else "")),
)


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog table expire shop.orders --dry-run",
        "lakelog table expire shop.orders --older-than 2024-05-01T00:00:00Z --retain-last 3",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option(
    "--older-than",
    metavar="TIME",
    help="Expire snapshots that were replaced by this time, for instance 2024-05-01T12:00:00Z.",
)
@click.option("--retain-last", type=Whole(1, MAX_RETAINED), metavar="N", help="Keep the newest N snapshots.")
@click.option("--dry-run", is_flag=True, help="Only say what would expire, and what needs the rest.")
@pass_invocation
def expire(invocation: Invocation, name: str, older_than: str | None, retain_last: int | None, dry_run: bool) -> None:
    """Expire snapshots now; normally they expire by themselves, as the table's options say.

    Snapshots that consumers, readers, pending changelogs and tags need stay. Compactors delete the files afterwards.
    """
    info = invocation.metastore.get_table(parse_table_name(name))
    older_than_ms = None if older_than is None else parse_time(older_than)
    result = expire_snapshots(
        invocation.metastore, info, older_than=older_than_ms, retain_last=retain_last, dry_run=dry_run
    )
    printer = invocation.printer
    if printer.for_programs:
        printer.document(_to_record(result))
        return
    hidden = {"tagged"} if not result.tagged else set()
    if not result.changelogs or result.changelogs == result.snapshots:
        hidden.add("changelogs")
    printer.facts([column for column in _FACTS if column.key not in hidden], _to_record(result))
    for lease in result.held_by:
        ends = f", until {format_time(lease.expires_at_ms)} at most" if lease.expires_at_ms else ""
        printer.note(f"More would expire, but {describe_snapshot_lease(lease)}{ends}.")
    if dry_run:
        printer.note("Nothing was changed (--dry-run).")


def _to_record(result: ExpiryResult) -> dict[str, Any]:
    return {
        "table": result.table,
        "dry_run": result.dry_run,
        "snapshots": result.snapshots,
        "changelogs": result.changelogs,
        "files": result.files,
        "bytes": result.size_bytes,
        "first_kept": result.first_kept,
        "tagged": list(result.tagged),
        "held_by": [
            {
                "kind": lease.kind.value,
                "holder": lease.holder,
                "snapshot_id": lease.snapshot_id,
                "expires_at": format_time(lease.expires_at_ms) if lease.expires_at_ms else None,
            }
            for lease in result.held_by
        ],
    }
