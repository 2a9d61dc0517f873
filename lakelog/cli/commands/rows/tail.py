"""`lakelog tail`: the changes of a table so far, and new ones as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

import click
import pyarrow as pa

from lakelog.arguments import parse_table_name
from lakelog.cli.input.arguments import (
    Whole,
    parse_options,
    split_names,
    takes_change_condition,
    takes_columns,
    takes_limit,
    takes_raw,
)
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.change_output import TABLE_COLUMN, ChangePrinter, report_logged, report_skipped
from lakelog.client.metastore.metastore import WatchPosition
from lakelog.errors import InvalidArgument, NotFound, Unavailable
from lakelog.format.tables.table import TableInfo
from lakelog.reads.complete_changes import DEFAULT_TIMEOUT_S, check_reached
from lakelog.reads.streams.subscription import Subscription
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN

TABLE_LIMIT: Final = 100
"""The rows that people see without `--follow` unless they request more."""

_CAUGHT_UP_S: Final = 0.2
"""After so long without a row, the command checks whether all is shown."""

_RETRY_S: Final = 1.0
"""The pause between two tries to watch again: a restarted metastore is back within seconds."""


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog tail shop.orders --follow",
        "lakelog tail shop.orders --after 0 --until 7 --output json",
        "lakelog tail shop.orders shop.items --mode latest --follow",
    ),
)
@click.argument("names", metavar="DATABASE.TABLE...", nargs=-1, required=True)
@click.option(
    "--after",
    type=Whole(0),
    metavar="N",
    help="Begin after snapshot N; 0: with the oldest snapshot.  [default: with the newest]",
)
@click.option("--until", type=Whole(1), metavar="N", help="End with snapshot N.")
@takes_columns
@takes_change_condition
@takes_limit(f"Stop after so many rows; 0: no limit.  [default: {TABLE_LIMIT} in tables without --follow, else 0]")
@takes_raw
@click.option(
    "--mode",
    metavar="MODE",
    help="The start, instead of --after: latest-full, latest, from-snapshot, ...; see options.",
)
@click.option(
    "-O", "--option", "settings", multiple=True, metavar="KEY=VALUE", help="An option of subscriptions; repeatable."
)
@click.option("--consumer", metavar="ID", help="Store the position under this name, and go on from it.")
@click.option("-f", "--follow", is_flag=True, help="Wait for new snapshots, until Ctrl-C.")
@pass_invocation
def tail(
    invocation: Invocation,
    names: tuple[str, ...],
    after: int | None,
    until: int | None,
    columns: str | None,
    condition: str | None,
    limit: int | None,
    raw: bool,
    mode: str | None,
    settings: tuple[str, ...],
    consumer: str | None,
    follow: bool,
) -> None:
    """Show a table's changes.

    Each row has its kind and its snapshot, 0 before its commit. In a table with a primary key, the kind is +I for a new
    row, -D for a deleted one, and -U and +U for the old and the new form of a changed one. Snapshots that overwrote
    rows show none, unless the table's option streaming-read-overwrite is set; a warning names them. With --output json,
    each row is an object on its own line.

    Several tables begin with their present rows, unless --mode says otherwise. Changes that were committed together are
    shown together, and each row names its table.
    """
    options = parse_options(settings, "--option")
    bounds = [name for name, value in (("--after", after), ("--until", until)) if value is not None]
    given = (("--mode", mode), ("--option", settings or None), ("--consumer", consumer))
    starts = [name for name, value in given if value is not None]
    subscribes = bool(starts) or len(names) > 1
    if subscribes and bounds:
        with_what = f"with {' and '.join(starts)}" if starts else "for several tables"
        raise InvalidArgument(
            f"{' and '.join(bounds)} cannot be given {with_what}. Leave out {' and '.join(bounds)}"
            + (f", or {' and '.join(starts)}." if starts and len(names) == 1 else ".")
        )
    if len(names) > 1 and (columns is not None or condition is not None):
        raise InvalidArgument("--columns and --filter are of one table, and there are several. Leave them out.")
    if after is not None and until is not None and until <= after:
        raise InvalidArgument(f"--until {until} is not after --after {after}; there is nothing between them.")
    info, *others = (invocation.metastore.get_table(parse_table_name(each)) for each in names)
    latest = info.latest_snapshot_id
    begin = max(latest - 1, 0) if after is None else after
    if limit is None:
        limit = 0 if follow or invocation.printer.for_programs else TABLE_LIMIT
    output = ChangePrinter(invocation, limit)
    if subscribes:
        if raw:
            options.setdefault("scan.remove-normalize", "true")
        wanted = split_names(columns)
        with (
            report_logged(invocation),
            invocation.catalog.subscribe(
                names,
                mode,
                consumer,
                columns=None if wanted is None else {str(info.name): wanted},
                filter=None if condition is None else {str(info.name): condition},
                options=options,
            ) as stream,
        ):
            last = {str(each.name): each.latest_snapshot_id for each in (info, *others)}

            def check_waiting() -> None:
                # Rows as they were written need no compactor.
                for each in () if raw else (info, *others):
                    check_reached(invocation.metastore, each, each.latest_snapshot_id)

            _print_stream(stream, output, None if follow else last, check_waiting, with_table=len(names) > 1)
        if not follow and output.row_count == 0:
            _say_nothing_came(invocation, (info, *others))
        output.finish(follow=follow)
        return
    ends = _follow(invocation, info, begin, until, complete=not raw) if follow else iter([until or latest])
    table = invocation.catalog.table(names[0])
    if begin > latest and not follow:
        # No snapshot exists yet, and the command does not wait for one: the SDK raises the error.
        table.changes(after=begin)
    for end in ends:
        if end > begin:
            changes = table.changes(after=begin, until=end, columns=split_names(columns), filter=condition, raw=raw)
            report_skipped(invocation, changes.skipped_snapshots)
            if not output.print(changes.to_batches()):
                break
            begin = end
    if not follow and output.row_count == 0:
        _say_nothing_came(invocation, (info,))
    output.finish(follow=follow)


def _say_nothing_came(invocation: Invocation, tables: Sequence[TableInfo]) -> None:
    for table in tables:
        what = "has no changes in this range" if table.latest_snapshot_id else "has no snapshots yet"
        invocation.printer.say(f"{table.name} {what}.")


def _print_stream(
    stream: Subscription,
    output: ChangePrinter,
    last: Mapping[str, int] | None,
    check_waiting: Callable[[], None],
    *,
    with_table: bool,
) -> None:
    """Prints a subscription, up to and with the snapshots `last` of its tables; None: until it ends or Ctrl-C.

    After a time without rows it checks whether snapshots wait for a compactor, and raises then.
    """
    last_answer_s = time.monotonic()
    while True:
        batch = stream.read(None if last is None else _CAUGHT_UP_S)
        if batch is None:
            if stream.ended or (
                last is not None and all(stream.positions.get(name, 0) >= n for name, n in last.items())
            ):
                return
            if time.monotonic() - last_answer_s > DEFAULT_TIMEOUT_S:
                check_waiting()
                last_answer_s = time.monotonic()
            continue
        last_answer_s = time.monotonic()
        rows = batch.data.append_column(
            SNAPSHOT_ID_COLUMN, pa.repeat(pa.scalar(batch.snapshot_id, pa.int64()), batch.data.num_rows)
        )
        if with_table:
            rows = rows.append_column(TABLE_COLUMN, pa.repeat(pa.scalar(batch.table), rows.num_rows))
        if not output.print(iter([rows])):
            return


def _follow(invocation: Invocation, info: TableInfo, after: int, until: int | None, *, complete: bool) -> Iterator[int]:
    """Ids of the newest snapshot, each time there is a newer one; goes on after the metastore was away.

    Raises:
        NotFound: The table was dropped.
    """
    position, uuid, away = after, "", False
    while until is None or position < until:
        try:
            watched = [WatchPosition(info.table_uuid, position, uuid)]
            with closing(invocation.metastore.watch(watched, complete=complete)) as watch:
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
            # Nothing is lost: the watch goes on after the last snapshot that was shown.
            if not away:
                invocation.printer.note("The metastore is away; waiting for it.")
                away = True
            time.sleep(_RETRY_S)
