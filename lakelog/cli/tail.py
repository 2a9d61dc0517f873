"""`lakelog tail`: the changes of a table as they were written, and those to come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import click
import pyarrow as pa

from lakelog.arguments import parse_table_name
from lakelog.cli.arguments import Whole, split_names
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.row_output import MAX_PRINTED_ROWS, note_hidden, print_json
from lakelog.cli.row_table import ROW_KIND_STYLES, RowTable
from lakelog.cli.text import plural
from lakelog.client.metastore import WatchPosition
from lakelog.errors import InvalidArgument, NotFound, Unavailable
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.table import TableInfo

TABLE_LIMIT: Final = 100
"""Rows that people see without `--follow` unless they ask for more."""

_RETRY_S: Final = 1.0
"""Between two tries to watch again: a metastore that starts anew is back within seconds."""


@click.command(
    cls=LakelogCommand,
    example=("lakelog tail shop.orders --follow", "lakelog tail shop.orders --after 0 --until 7 --output json"),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option(
    "--after",
    type=Whole(0),
    metavar="N",
    help="Begin behind snapshot N; 0: with the oldest.  [default: with the newest]",
)
@click.option("--until", type=Whole(1), metavar="N", help="End with snapshot N.")
@click.option("-c", "--columns", metavar="COLUMNS", help="Names apart by commas.  [default: all]")
@click.option("--filter", "condition", metavar="SQL", help="Only changed rows for which this is true.")
@click.option(
    "-n",
    "--limit",
    type=Whole(0),
    metavar="N",
    help=f"Stop after so many rows, 0 for none.  [default: {TABLE_LIMIT} in tables without --follow, else 0]",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for new snapshots, until Ctrl-C.")
@pass_invocation
def tail(
    invocation: Invocation,
    name: str,
    after: int | None,
    until: int | None,
    columns: str | None,
    condition: str | None,
    limit: int | None,
    follow: bool,
) -> None:
    """Show a table's changes as they were written.

    Each row has its kind (+I insert, -U and +U update, -D delete) and the snapshot that brought it. Snapshots that
    overwrote rows show none; a line says which. With --output json each row is an object on a line of its own.
    """
    if after is not None and until is not None and until <= after:
        raise InvalidArgument(f"--until {until} is not behind --after {after}; there is nothing between them.")
    info = invocation.metastore.get_table(parse_table_name(name))
    latest = info.latest_snapshot_id
    begin = max(latest - 1, 0) if after is None else after
    if limit is None:
        limit = 0 if follow or invocation.printer.is_json else TABLE_LIMIT
    output = _ChangePrinter(invocation, limit)
    ends = _follow(invocation, info, begin, until) if follow else iter([min(latest, until or latest)])
    table = invocation.catalog.table(name)
    if begin > latest and not follow:
        # Nothing is there to show yet, and nobody waits for it: the SDK says so.
        table.changes(after=begin, raw=True)
    for end in ends:
        if end > begin:
            changes = table.changes(after=begin, until=end, columns=split_names(columns), filter=condition, raw=True)
            _tell_skipped(invocation, changes.skipped_snapshots)
            if not output.print(changes.to_batches()):
                break
            begin = end
    if not follow and output.row_count == 0:
        invocation.printer.say(f"{info.name} has no changes here." if latest else f"{info.name} has no snapshots yet.")
    output.finish(follow=follow)


def _follow(invocation: Invocation, info: TableInfo, after: int, until: int | None) -> Iterator[int]:
    """Ids of the newest snapshot known, each time there is a newer one; survives a metastore that goes and returns.

    Raises:
        NotFound: The table was dropped.
    """
    position, uuid, away = after, "", False
    while until is None or position < until:
        try:
            with closing(invocation.metastore.watch([WatchPosition(info.table_uuid, position, uuid)])) as watch:
                for event in watch:
                    if away:
                        invocation.printer.note("The metastore is back.")
                        away = False
                    if event.dropped:
                        raise NotFound(f"Table {info.name} was dropped.", reason="TABLE_NOT_FOUND")
                    wanted = [s for s in event.snapshots if until is None or s.snapshot_id <= until]
                    if wanted:
                        position, uuid = wanted[-1].snapshot_id, wanted[-1].snapshot_uuid
                        yield position
                    if until is not None and event.snapshots and event.snapshots[-1].snapshot_id >= until:
                        return
        except Unavailable:
            # Nothing is lost: the watch goes on behind the last snapshot that was shown.
            if not away:
                invocation.printer.note("The metastore is away; waiting for it.")
                away = True
            time.sleep(_RETRY_S)


def _tell_skipped(invocation: Invocation, snapshot_ids: Sequence[int]) -> None:
    if snapshot_ids:
        which = f"Snapshot {snapshot_ids[0]}" if len(snapshot_ids) == 1 else plural(len(snapshot_ids), "snapshot")
        invocation.printer.note(f"{which} overwrote rows; what was replaced, and by what, is not shown.")


class _ChangePrinter:
    """Prints changed rows up to a limit.

    Args:
        invocation: Whose printer is used.
        limit: At most so many rows; 0: no end.
    """

    def __init__(self, invocation: Invocation, limit: int) -> None:
        self._invocation = invocation
        self._limit = limit
        self._table = RowTable(invocation.printer, {ROW_KIND_COLUMN: lambda kind: ROW_KIND_STYLES.get(kind, "")})
        self._cut = False
        self.row_count = 0

    def print(self, batches: Iterator[pa.RecordBatch]) -> bool:
        """Prints rows; False when the limit is reached."""
        for batch in batches:
            room = self._limit - self.row_count if self._limit else batch.num_rows
            shown = _kind_first(batch.slice(0, room))
            self._print(shown)
            self.row_count += shown.num_rows
            if batch.num_rows > room:
                self._cut = True
                break
        self._table.flush()
        return not self._cut

    def _print(self, batch: pa.RecordBatch) -> None:
        if self._invocation.printer.is_json:
            print_json(self._invocation, batch)
            return
        for start in range(0, batch.num_rows, MAX_PRINTED_ROWS):
            self._table.add(batch.slice(start, MAX_PRINTED_ROWS))

    def finish(self, *, follow: bool) -> None:
        """Says what was left out."""
        if self._cut and not follow:
            rows = plural(self.row_count, "row")
            self._invocation.printer.note(f"The first {rows}; there are more: --limit N, or --limit 0 for all.")
        note_hidden(self._invocation, self._table)


def _kind_first(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The row kind and the snapshot in front, where people look first and where no terminal is too narrow."""
    front = [name for name in ("_snapshot_id", ROW_KIND_COLUMN) if name in batch.schema.names]
    return batch.select([*front, *(name for name in batch.schema.names if name not in front)])
