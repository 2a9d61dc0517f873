"""`lakelog insert`: the rows of files into a table, in one commit or in one a file."""

from __future__ import annotations

import datetime as dt
import functools
import re
import secrets
from collections.abc import Sequence
from typing import Any, Final

import click
import pyarrow as pa

from lakelog.arguments import parse_table_name
from lakelog.cli.commands.rows.insert_files import FileInsert, Inserted
from lakelog.cli.commands.rows.insert_progress import InsertProgress
from lakelog.cli.input.arguments import Whole
from lakelog.cli.input.left_out import MayLeaveOut
from lakelog.cli.input.source_files import FORMATS, STDIN
from lakelog.cli.input.source_paths import SourceFile, find_sources
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.text import plural
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.options.declared.tables import IGNORE_DELETE, ROWKIND_FIELD, SEQUENCE_FIELD
from lakelog.options.values import TableOptions

_MODES: Final = ("append", "upsert", "delete", "write", "overwrite")
_VERBS: Final = {
    "append": "Appended",
    "upsert": "Upserted",
    "delete": "Deleted the keys of",
    "write": "Wrote",
    "overwrite": "Replaced all rows of the table by",
}
_JOB: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", re.ASCII)
"""SUBTLE: a name that is copied with the period of its sentence must not be another job, which writes all again."""


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog insert shop.orders orders.csv",
        "lakelog insert shop.orders exports/ 'more/2024-*.parquet' --job exports-2024",
        "lakelog insert shop.orders - --format json < orders.json",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
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
    help=f"{', '.join(FORMATS)}.  [default: by the name of each file]",
)
@click.option(
    "--fill-missing", is_flag=True, help="Columns that a file leaves out become NULL, instead of being an error."
)
@click.option(
    "--job",
    metavar="NAME",
    help="Go on under this name: files that it has written are not written again.  [default: for several "
    "files, a name that the output shows]",
)
@click.option("--one-commit", is_flag=True, help="All files in one commit: all of them or none.")
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
    paths: tuple[str, ...],
    mode: str | None,
    file_format: str | None,
    fill_missing: bool,
    job: str | None,
    one_commit: bool,
    writer: str | None,
    identifier: int | None,
    latest: bool,
    if_snapshot: int | None,
    if_unchanged: int | None,
) -> None:
    """Write the rows of files.

    PATH is a file, a folder with all that is below it, or a glob in quotes. Files are csv, parquet, json (one object on
    each line, with values as --output json writes them) or arrow, also mixed. csv and json can be compressed: .gz,
    .bz2, .zst or .lz4. A single - is the standard input.

    A single file is one commit. Several files are one commit each, under the name of a job. After an interruption
    run the command again with --job NAME: then each file is in the table once. --one-commit, --mode overwrite,
    --writer, --if-snapshot and --if-unchanged make one commit of all files.
    """
    if (writer is None) != (identifier is None):
        raise InvalidArgument("--writer and --identifier say together which commit this is; give both or none.")
    info = invocation.metastore.get_table(parse_table_name(name))
    mode = mode or ("upsert" if info.schema.primary_key else "append")
    if latest and mode != "delete":
        raise InvalidArgument(
            f"--latest is for --mode delete, and the mode is {mode}. Leave it out.", metadata={"field": "latest"}
        )
    commit = {"writer": writer, "identifier": identifier, "if_snapshot": if_snapshot, "if_unchanged": if_unchanged}
    given = [f"--{key.replace('_', '-')}" for key, value in commit.items() if value is not None]
    _check_job(job, [*["--one-commit"] * one_commit, *["--mode overwrite"] * (mode == "overwrite"), *given], paths)
    sources = find_sources(paths, file_format)
    at_once = one_commit or mode == "overwrite" or bool(given) or (len(sources) == 1 and job is None)
    more: dict[str, Any] = {"latest": latest} if mode == "delete" else {"fill_missing": fill_missing}
    write = functools.partial(getattr(invocation.catalog.table(name), mode), **more)
    files = FileInsert(
        invocation.metastore,
        info,
        mode,
        write,
        _text_types(info, mode),
        _may_leave_out(info, fill_missing, mode),
        InsertProgress(sum(source.size_bytes for source in sources), len(sources)),
    )
    if at_once:
        with files.progress.shown():
            files.insert_at_once(sources, **commit)
    else:
        job = _insert_each(invocation, files, sources, job)
    _report(invocation, info, mode, files.inserted, job)


def _insert_each(
    invocation: Invocation, files: FileInsert, sources: Sequence[SourceFile], given_job: str | None
) -> str:
    """Writes each file by itself; returns the job's name."""
    job = given_job or _new_job()
    invocation.printer.note(
        f"Job {job}: a commit for each of {plural(len(sources), 'file')}. If it is interrupted, go on by the same "
        f"command with --job {job}."
    )
    try:
        with files.progress.shown():
            files.insert_each(sources, job, is_new=given_job is None)
    except KeyboardInterrupt:
        done = files.inserted.files + files.inserted.files_before
        invocation.printer.warn(
            f"Interrupted: {done:,} of {plural(len(sources), 'file')} are in {files.info.name}, of the others nothing. "
            f"Go on by the same command with --job {job}."
        )
        raise
    return job


def _check_job(job: str | None, one_commit: list[str], paths: tuple[str, ...]) -> None:
    if job is None:
        return
    if not _JOB.fullmatch(job):
        raise InvalidArgument(
            f"--job {job[:100]!r} is no name: use up to 100 letters and digits, with '.', '_' and '-' between them.",
            metadata={"field": "job"},
        )
    if one_commit:
        raise InvalidArgument(
            f"--job goes on file by file, and {one_commit[0]} makes one commit of all files: leave one of them out.",
            metadata={"field": "job"},
        )
    if STDIN in paths:
        raise InvalidArgument(
            "The standard input cannot be read a second time, so no --job can go on with it. Give files, or use "
            "--writer and --identifier.",
            metadata={"field": "job"},
        )


def _new_job() -> str:
    return f"{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def _may_leave_out(info: TableInfo, fill_missing: bool, mode: str) -> MayLeaveOut:
    options = TableOptions(info.options)
    # Rows that are all deletes are checked where they are written, which knows --latest.
    needs_sequence = mode != "delete" and not options.get(IGNORE_DELETE)
    return MayLeaveOut(
        fill_missing or mode == "delete",
        options.get(ROWKIND_FIELD) or ROW_KIND_COLUMN,
        options.get(SEQUENCE_FIELD) if needs_sequence else (),
    )


def _text_types(info: TableInfo, mode: str) -> pa.Schema:
    """The types that texts are read as: the table's, without ids, and that of the row kind where it is asked for."""
    fields = [pa.field(field.name, field.type) for field in info.schema.arrow]
    if mode == "write" and TableOptions(info.options).get(ROWKIND_FIELD) is None:
        fields.append(pa.field(ROW_KIND_COLUMN, pa.string()))
    return pa.schema(fields)


def _report(invocation: Invocation, info: TableInfo, mode: str, inserted: Inserted, job: str | None) -> None:
    rows, snapshot_id = inserted.rows, inserted.snapshot_id
    count = inserted.files
    if inserted.already_applied:
        sentence = f"This commit had been applied before, as snapshot {snapshot_id}; nothing was changed."
    elif job is not None and not count:
        sentence = f"Job {job} had written all {plural(inserted.files_before, 'file')} before; nothing was changed."
    elif snapshot_id is None:
        sentence = f"No rows to write; {info.name} is as it was."
    else:
        of_files = f" of {plural(count, 'file')}" if count > 1 or job is not None else ""
        sentence = f"{_VERBS[mode]} {plural(rows, 'row')}{of_files}: {info.name} is at snapshot {snapshot_id}."
        if inserted.files_before:
            sentence += f" {plural(inserted.files_before, 'file')} had been written before."
    record = {
        "table": str(info.name),
        "rows": rows,
        "snapshot_id": snapshot_id,
        "already_applied": inserted.already_applied,
        "files": count,
        "files_before": inserted.files_before,
        "job": job,
    }
    invocation.printer.done(sentence, record)
