"""`lakelog table expire-partitions`: removes a table's old partitions."""

from __future__ import annotations

from typing import Any, Final

import click
import pyarrow as pa

from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_bytes, format_count, format_time, plural
from lakelog.format.types.time_text import to_time_texts
from lakelog.sdk.maintenance.partition_expiry import PartitionExpiryResult


def _format_partition(values: dict[str, str | None]) -> str:
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in values.items())


_COLUMNS: Final = (
    Column("partition", "PARTITION", _format_partition, may_cut=True),
    Column("time", "TIME"),
    Column("files", "FILES", format_count, right=True),
    Column("rows", "ROWS", format_count, right=True),
    Column("bytes", "SIZE", format_bytes, right=True),
)


@click.command(
    "expire-partitions",
    cls=LakelogCommand,
    example=(
        "lakelog table expire-partitions shop.visits --dry-run",
        "lakelog table options set shop.visits partition.expiration-time='30 d'",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--dry-run", is_flag=True, help="Only say which partitions have expired.")
@pass_invocation
def expire_partitions(invocation: Invocation, name: str, dry_run: bool) -> None:
    """Remove the partitions that are older than partition.expiration-time.

    Compactors do this by themselves, every partition.expiration-check-interval. Earlier snapshots still contain the
    removed partitions. Partitions whose time cannot be read stay.
    """
    result = invocation.catalog.table(name).expire_partitions(dry_run)
    printer = invocation.printer
    record = _to_record(result)
    if printer.for_programs:
        printer.document(record)
        return
    printer.records(_COLUMNS, record["expired"], empty=f"No partition of {result.table} has expired.")
    if result.unknown_count:
        printer.note(
            f"{plural(result.unknown_count, 'partition')} without a time that can be read, for instance "
            f"{_format_partition(record['unknown'][0])}; see partition.timestamp-pattern and "
            "partition.timestamp-formatter."
        )
    if dry_run:
        printer.note("Nothing was changed (--dry-run).")


def _to_record(result: PartitionExpiryResult) -> dict[str, Any]:
    return {
        "table": result.table,
        "dry_run": result.dry_run,
        "snapshot_id": result.snapshot_id,
        "expired": [
            {
                "partition": _to_texts(each.partition),
                "time": format_time(each.time_ms),
                "files": each.files,
                "rows": each.rows,
                "bytes": each.size_bytes,
            }
            for each in result.expired
        ],
        "unknown": [_to_texts(each) for each in result.unknown],
        "unknown_count": result.unknown_count,
    }


def _to_texts(values: dict[str, Any]) -> dict[str, str | None]:
    """A partition's values as text; None: NULL."""
    return {name: None if value is None else _to_text(value) for name, value in values.items()}


def _to_text(value: Any) -> str:
    array = pa.array([value])
    if pa.types.is_temporal(array.type):
        return str(to_time_texts(array)[0])
    return str(value).lower() if isinstance(value, bool) else str(value)
