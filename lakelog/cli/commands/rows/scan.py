"""`lakelog scan`: the rows of a table."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final

import click

from lakelog.cli.input.arguments import Whole, split_names, takes_columns, takes_limit
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.row_output import RowPrinter, print_table
from lakelog.cli.output.text import parse_time
from lakelog.errors import InvalidArgument

TABLE_LIMIT: Final = 20
"""The rows that people see unless they request more; programs get all."""


@click.command(
    cls=LakelogCommand,
    example=(
        'lakelog scan shop.orders --columns id,item --filter "price < 5"',
        "lakelog scan shop.orders --snapshot 3 --count",
        "lakelog scan shop.orders --tag release-1",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@takes_columns
@click.option(
    "--filter", "condition", metavar="SQL", help='Only rows that fulfil this condition, for instance "price < 5".'
)
@takes_limit(f"Show at most so many rows; 0: all.  [default: {TABLE_LIMIT} in tables, all for programs]")
@click.option("--snapshot", type=Whole(1), metavar="N", help="The table as it was at snapshot N.")
@click.option(
    "--timestamp", metavar="TIME", help="The table as it was at this time: 2013-07-01T12:00:00Z or milliseconds."
)
@click.option("--tag", metavar="TAG", help="The table as it was at the snapshot that has this tag.")
@click.option("--count", is_flag=True, help="Print only the number of rows.")
@pass_invocation
def scan(
    invocation: Invocation,
    name: str,
    columns: str | None,
    condition: str | None,
    limit: int | None,
    snapshot: int | None,
    timestamp: str | None,
    tag: str | None,
    count: bool,
) -> None:
    """Show the rows of a table.

    Programs get all rows while they are read: with --output json or jsonl an object on each line, with csv a line, with
    yaml the elements of a list.
    """
    # Not at the top: the help needs none of it.
    from lakelog.reads.scan import track_reading

    states = {"--snapshot": snapshot, "--timestamp": timestamp, "--tag": tag}
    given = [name for name, value in states.items() if value is not None]
    if len(given) > 1:
        raise InvalidArgument(f"{given[0]} and {given[1]} both say which state to read; give one of them.")
    if count and columns is not None:
        raise InvalidArgument("--count counts rows, whatever their columns; leave --columns out.")
    printer = invocation.printer
    shown_limit = limit if limit is not None else (0 if printer.for_programs or count else TABLE_LIMIT)
    # One row more than the limit shows whether there are more.
    probe = 1 if shown_limit and not count and not printer.for_programs else 0
    rows = invocation.catalog.table(name).scan(
        columns=split_names(columns),
        filter=condition,
        limit=shown_limit + probe if shown_limit else None,
        snapshot_id=snapshot,
        timestamp=None if timestamp is None else parse_time(timestamp),
        tag=tag,
    )
    if count:
        number = rows.count()
        printer.document({"table": name, "count": number}) if printer.for_programs else printer.say(str(number))
        return
    if printer.for_programs:
        output = RowPrinter(printer)
        output.begin(rows.schema)
        # Not above: the help needs no reads.
        from lakelog.reads.scan import track_reading

        # On a terminal the rows themselves show how far it is.
        with nullcontext() if printer.is_terminal else track_reading(name, rows.files, shown_limit or None) as work:
            for batch in rows.to_batches():
                output.print(batch)
                if work is not None:
                    work.advance(batch.num_rows)
        output.end()
        return
    print_table(
        invocation, rows.to_batches(), shown_limit, empty=f"No rows in {name}" + (" match." if condition else ".")
    )
