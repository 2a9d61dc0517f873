"""`lakelog insert`: a file's rows into a table, in one commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click
import pyarrow as pa

from lakelog.arguments import parse_table_name
from lakelog.cli.arguments import Whole
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.json_file import MayLeaveOut
from lakelog.cli.source_files import FORMATS, detect_format, open_batches
from lakelog.cli.text import plural
from lakelog.errors import InvalidArgument
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.table import TableInfo
from lakelog.options.table_options import IGNORE_DELETE, ROWKIND_FIELD, SEQUENCE_FIELD
from lakelog.options.values import TableOptions

_MODES: Final = ("append", "upsert", "delete", "write", "overwrite")
_VERBS: Final = {
    "append": "Appended",
    "upsert": "Upserted",
    "delete": "Deleted the keys of",
    "write": "Wrote",
    "overwrite": "Replaced all rows of the table by",
}


@click.command(
    cls=LakelogCommand,
    example=("lakelog insert shop.orders orders.csv", "lakelog insert shop.orders - --format json < orders.json"),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.argument("path", metavar="FILE")
@click.option(
    "--mode",
    type=click.Choice(_MODES),
    metavar="MODE",
    help=f"{', '.join(_MODES[:-1])} or {_MODES[-1]}; write: each row does what its {ROW_KIND_COLUMN} says.  [default: "
    "upsert with a primary key, else append]",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(FORMATS),
    metavar="FORMAT",
    help=f"{', '.join(FORMATS)}.  [default: by the name of FILE]",
)
@click.option("--fill-missing", is_flag=True, help="Columns that FILE leaves out become NULL; else they are an error.")
@click.option("--writer", metavar="NAME", help="With --identifier: a commit under both is applied once, ever.")
@click.option("--identifier", type=Whole(0), metavar="N", help="The writer's own number of this commit.")
@click.option(
    "--latest",
    is_flag=True,
    help="With --mode delete: of a table with sequence.field delete what is there, whatever its sequence value.",
)
@click.option("--if-snapshot", type=Whole(0), metavar="N", help="Refuse if the table has changed since snapshot N.")
@click.option(
    "--if-unchanged",
    type=Whole(0),
    metavar="N",
    help="Refuse if the buckets or partitions that this writes have changed since snapshot N.",
)
@pass_invocation
def insert(
    invocation: Invocation,
    name: str,
    path: str,
    mode: str | None,
    file_format: str | None,
    fill_missing: bool,
    writer: str | None,
    identifier: int | None,
    latest: bool,
    if_snapshot: int | None,
    if_unchanged: int | None,
) -> None:
    """Write the rows of a file in one commit.

    FILE is csv, parquet, json (an object a line, values as --output json writes them) or arrow; - is the standard
    input.
    """
    if (writer is None) != (identifier is None):
        raise InvalidArgument("--writer and --identifier say together which commit this is; give both or none.")
    info = invocation.metastore.get_table(parse_table_name(name))
    mode = mode or ("upsert" if info.schema.primary_key else "append")
    file_format = file_format or detect_format(path)
    if latest and mode != "delete":
        raise InvalidArgument(
            f"--latest is for --mode delete, and the mode is {mode}. Leave it out.", metadata={"field": "latest"}
        )
    deletes = mode == "delete"
    more = {"latest": latest} if deletes else {"fill_missing": fill_missing}
    options = TableOptions(info.options)
    may_leave_out = MayLeaveOut(
        fill_missing or deletes,
        options.get(ROWKIND_FIELD) or ROW_KIND_COLUMN,
        () if options.get(IGNORE_DELETE) else options.get(SEQUENCE_FIELD),
    )
    with open_batches(path, file_format, _text_types(info, mode), may_leave_out) as reader:
        counted = _CountedRows(reader)
        result = getattr(invocation.catalog.table(name), mode)(
            counted.as_reader(),
            writer=writer,
            identifier=identifier,
            if_snapshot=if_snapshot,
            if_unchanged=if_unchanged,
            **more,
        )
    _report(invocation, info, mode, counted.row_count, result.snapshot_id, result.already_applied)


def _text_types(info: TableInfo, mode: str) -> pa.Schema:
    """The types that texts are read as: the table's, without ids, and that of the row kind where it is asked for."""
    fields = [pa.field(field.name, field.type) for field in info.schema.arrow]
    if mode == "write" and TableOptions(info.options).get(ROWKIND_FIELD) is None:
        fields.append(pa.field(ROW_KIND_COLUMN, pa.string()))
    return pa.schema(fields)


class _CountedRows:
    """Counts rows as they pass."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self.row_count = 0

    def as_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._reader.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            self.row_count += batch.num_rows
            yield batch


def _report(
    invocation: Invocation, info: TableInfo, mode: str, rows: int, snapshot_id: int | None, already_applied: bool
) -> None:
    if already_applied:
        sentence = f"This commit had been applied before, as snapshot {snapshot_id}; nothing was changed."
    elif snapshot_id is None:
        sentence = f"No rows to write; {info.name} is as it was."
    else:
        sentence = f"{_VERBS[mode]} {plural(rows, 'row')}: {info.name} is at snapshot {snapshot_id}."
    record = {"table": str(info.name), "rows": rows, "snapshot_id": snapshot_id, "already_applied": already_applied}
    invocation.printer.done(sentence, record)
