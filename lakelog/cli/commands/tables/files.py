"""`lakelog files`: the data files of a table."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from lakelog.cli.input.arguments import Whole
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.json_rows import to_json_lines
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_bytes, format_count, plural


def _format_values(values: Any) -> str:
    """Values of partition columns or of a key, `dt=2013-01-01, id=5`; … for an unknown bound."""
    if values is None:
        return ""
    if isinstance(values, dict):
        return ", ".join(f"{name}={_format_value(value)}" for name, value in values.items())
    return _format_value(values)


def _format_value(value: Any) -> str:
    return "NULL" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_COLUMNS: Final = (
    Column("partition", "PARTITION", _format_values, may_cut=True),
    Column("bucket", "BUCKET", right=True),
    Column("level", "LEVEL", right=True),
    Column("rows", "ROWS", format_count, right=True),
    Column("bytes", "SIZE", format_bytes, right=True),
    Column("added_snapshot", "SNAPSHOT", right=True),
    Column("min_key", "FIRST KEY", _format_values, may_cut=True),
    Column("max_key", "LAST KEY", _format_values, may_cut=True),
    Column("path", "PATH", may_cut=True),
)


@click.command(cls=LakelogCommand)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--snapshot", type=Whole(1), metavar="N", help="The files of snapshot N.  [default: the newest]")
@pass_invocation
def files(invocation: Invocation, name: str, snapshot: int | None) -> None:
    """List the data files that a read needs."""
    found = invocation.catalog.table(name).files(snapshot_id=snapshot)
    # Not with splitlines(), which also splits at characters that values may contain, such as U+2028.
    records = [json.loads(line) for batch in found.to_batches() for line in to_json_lines(batch).split("\n") if line]
    # Leaves out columns without a meaning for this table, such as partitions or keys that it does not have.
    shown = [c for c in _COLUMNS if any(c.format(record[c.key]) for record in records)]
    invocation.printer.records(shown, records, empty=f"{name} has no data files; the first write makes some.")
    if records:
        total = sum(record["bytes"] for record in records)
        rows = plural(sum(record["rows"] for record in records), "stored row")
        invocation.printer.note(f"{plural(len(records), 'file')}, {rows}, {format_bytes(total)}.")
