"""`lakelog table check`: compares a table's files with those that it refers to."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict
from typing import Any, Final

import click

from lakelog.cli.input.arguments import Span
from lakelog.cli.input.confirmation import confirm
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.printer import Column, Printer
from lakelog.cli.output.text import format_age, format_bytes, format_count, plural
from lakelog.errors import DataCorrupted
from lakelog.sdk.maintenance.file_check_result import FileCheck

_FACTS: Final = (
    Column("table", "Table"),
    Column("files", "Files", format_count),
    Column("bytes", "Size", format_bytes),
    Column("orphan_files", "Orphans", format_count),
    Column("orphan_bytes", "Size of orphans", format_bytes),
    Column("queued_files", "Queued by expiry", format_count),
    Column("broken_files", "Missing or broken", format_count),
    Column("deleted_files", "Deleted", format_count),
    Column("deleted_bytes", "Size deleted", format_bytes),
    Column("left_files", "Could not be deleted", format_count),
)
_ORPHANS: Final = (
    Column("attempt", "ATTEMPT"),
    Column("reason", "REASON"),
    Column("open_ms", "OPEN FOR", lambda age: "" if age is None else format_age(age)),
    Column("files", "FILES", format_count, right=True),
    Column("bytes", "SIZE", format_bytes, right=True),
    Column("deletable", "DELETABLE", format_count, right=True),
    Column("example", "FOR INSTANCE", may_cut=True),
)
_BROKEN: Final = (
    Column("path", "FILE", may_cut=True),
    Column("use", "USE"),
    Column("bytes", "SIZE", format_count, right=True),
    Column("found_bytes", "FOUND", lambda size: "missing" if size is None else format_count(size), right=True),
)


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog table check shop.orders",
        "lakelog table check shop.orders --repair --older-than 2d",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--repair", is_flag=True, help="Delete the files that nothing refers to, where that is safe.")
@click.option(
    "--older-than",
    type=Span(),
    default="1 d",
    show_default=True,
    metavar="TIME",
    help="Abort attempts that have been open for this long, for instance 12 h; delete files of unknown origin that are "
    "this old.",
)
@click.option("-y", "--yes", is_flag=True, help="Repair without asking.")
@pass_invocation
def check(invocation: Invocation, name: str, repair: bool, older_than: int, yes: bool) -> None:
    """Compare a table's files with those that it refers to.

    Files without a reference come from writers that died, from tasks that came too late, or from other programs.
    Writers can go on meanwhile. If files are missing, or have another size than was committed, the exit code is 1.
    """
    table = invocation.catalog.table(name)
    if repair:
        confirm(invocation, f"Delete the files of {table.name} that nothing refers to?", yes)
    found = table.check_files(repair, older_than=dt.timedelta(milliseconds=older_than))
    _show(invocation.printer, found, repaired=repair)
    if found.broken_files:
        raise DataCorrupted(
            f"{plural(found.broken_files, 'file')} of {found.table} missing or of another size than committed, for "
            f"instance {found.broken[0].path}. Restore them from a backup, or roll the table back to a snapshot "
            "without them.",
            reason="FILES_BROKEN",
            metadata={"table": found.table, "files": str(found.broken_files)},
        )


def _show(printer: Printer, found: FileCheck, *, repaired: bool) -> None:
    record = _to_record(found)
    if printer.is_json:
        printer.document(record)
        return
    printer.facts(_FACTS, record)
    for columns, key in ((_ORPHANS, "orphans"), (_BROKEN, "broken")):
        if record[key]:
            printer.say("")
            printer.records(columns, record[key], empty="")
    deletable = sum(each.deletable for each in found.orphans)
    if deletable and not repaired:
        printer.note(f"lakelog table check {found.table} --repair deletes {plural(deletable, 'file')}.")


def _to_record(found: FileCheck) -> dict[str, Any]:
    """A check's result for JSON. Pure."""
    record = asdict(found)
    record["bytes"] = record.pop("size_bytes")
    record["orphans"] = [
        {
            "attempt": each.attempt_id,
            "reason": each.reason.value,
            "open_ms": each.open_ms,
            "files": each.files,
            "bytes": each.size_bytes,
            "deletable": each.deletable,
            "example": each.example,
        }
        for each in found.orphans
    ]
    record["broken"] = [
        {"path": each.path, "use": each.use.value, "bytes": each.size_bytes, "found_bytes": each.found_bytes}
        for each in found.broken
    ]
    return record
