"""`lakelog snapshots`: the history of a table."""

from __future__ import annotations

from typing import Any

import click

from lakelog.arguments import parse_table_name
from lakelog.cli.input.arguments import Whole
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_bytes, format_count, format_time, plural
from lakelog.format.tables.snapshot import Snapshot
from lakelog.system_tables.metadata.listings import list_log_offsets

_COLUMNS = (
    Column("snapshot_id", "SNAPSHOT", right=True),
    Column("kind", "KIND"),
    Column("committed_at", "COMMITTED AT"),
    Column("added_rows", "ADDED ROWS", format_count, right=True),
    Column("total_rows", "STORED ROWS", format_count, right=True),
    Column("total_bytes", "SIZE", format_bytes, right=True),
    Column("writer", "WRITER", may_cut=True),
    Column("identifier", "IDENTIFIER", right=True),
    Column("watermark", "WATERMARK"),
    Column("total_files", "FILES", format_count, right=True),
    Column("added_files", "+FILES", format_count, right=True),
    Column("removed_files", "-FILES", format_count, right=True),
)
_FEW = 20


@click.command(cls=LakelogCommand)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option(
    "--limit", type=Whole(1, 1000), default=_FEW, show_default=True, help="How many snapshots to list, the newest ones."
)
@click.option("--after", type=Whole(0), default=0, metavar="N", help="Only those after snapshot N.")
@click.option("--until", type=Whole(1), metavar="N", help="Only those up to and with snapshot N.")
@pass_invocation
def snapshots(invocation: Invocation, name: str, limit: int, after: int, until: int | None) -> None:
    """List a table's snapshots, the newest last.

    STORED ROWS counts rows in files, including those that merging hides.
    """
    info = invocation.metastore.get_table(parse_table_name(name))
    page = invocation.metastore.list_snapshots(info.table_uuid, after=after, until=until or 0, limit=limit, newest=True)
    found = sorted(page.snapshots, key=lambda snapshot: snapshot.snapshot_id)
    offsets = list_log_offsets(invocation.metastore, info.table_uuid, found)
    records = [_record(snapshot, offsets.get(snapshot.snapshot_id)) for snapshot in found]
    if page.latest_snapshot_id == 0:
        empty = f"{info.name} has no snapshots yet; the first write makes one."
    else:
        empty = (
            f"No snapshots in this range; {info.name} has those from {page.earliest_snapshot_id} "
            f"to {page.latest_snapshot_id}."
        )
    columns = [c for c in _COLUMNS if c.key != "watermark" or any(record["watermark"] for record in records)]
    invocation.printer.records(columns, records, empty=empty)
    oldest_wanted = max(page.earliest_snapshot_id, after + 1)
    if found and found[0].snapshot_id > oldest_wanted:
        invocation.printer.note(
            f"The newest {plural(len(found), 'snapshot')}; older ones from {oldest_wanted} on: "
            f"--until {found[0].snapshot_id - 1}, or a higher --limit."
        )


def _record(snapshot: Snapshot, log_offsets: tuple[int, ...] | None) -> dict[str, Any]:
    return {
        "snapshot_id": snapshot.snapshot_id,
        "uuid": snapshot.snapshot_uuid,
        "parent_uuid": snapshot.parent_uuid or None,
        "kind": snapshot.kind.value,
        "schema_id": snapshot.schema_id,
        "committed_at": format_time(snapshot.committed_at_ms),
        "watermark": format_time(snapshot.watermark_ms) or None,
        "added_rows": snapshot.added_rows,
        "added_files": snapshot.added_files,
        "removed_files": snapshot.removed_files,
        "total_rows": snapshot.total_rows,
        "total_files": snapshot.total_files,
        "total_bytes": snapshot.total_bytes,
        "writer": snapshot.writer,
        "identifier": snapshot.identifier,
        "properties": dict(snapshot.properties),
        "log_offsets": None if log_offsets is None else list(log_offsets),
    }
