"""`lakelog table check`: compares a table's files and its log with its history."""

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
from lakelog.errors import DataCorrupted, HistoryDiverged
from lakelog.sdk.maintenance.checking.file_check_result import FileCheck

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
_REPAIRS: Final = (
    Column("expired_snapshots", "Snapshots expired", format_count),
    Column("deleted_tags", "Tags deleted", ", ".join),
    Column("held_by", "Kept from expiring", "; ".join),
    Column("log_problem", "Log"),
    Column("log_restarted_after", "Log restarted after snapshot", format_count),
)
"""Shown only if there is something to say."""
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
    Column("last_snapshot_id", "UNTIL", lambda last: "newest" if last is None else format_count(last), right=True),
)


@click.command(
    cls=LakelogCommand,
    example=(
        "lakelog table check shop.orders",
        "lakelog table check shop.orders --repair --older-than 2d",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--repair", is_flag=True, help="Repair what can be repaired, and say what was done.")
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
    """Compare a table's files with those that it refers to, and its log with its history.

    Files without a reference come from writers that died, from tasks that came too late, from other programs, or from
    commits that a restore of the metastore's database has lost. Writers can go on meanwhile. If files are missing, or
    have another size than was committed, or if the log needs a restart, the exit code is 1.

    A repair deletes files without a reference where that is safe. It expires old snapshots whose files are missing, and
    deletes their tags. It restarts a log that does not belong to the table any more; all consumers of the log must then
    read the whole table once.
    """
    table = invocation.catalog.table(name)
    if repair:
        question = (
            f"Repair {table.name}: delete files that nothing refers to, expire old snapshots with missing files, and "
            "restart its log if that is needed?"
        )
        confirm(invocation, question, yes)
    found = table.check_files(repair, older_than=dt.timedelta(milliseconds=older_than))
    _show(invocation.printer, found, repaired=repair)
    if found.broken_files:
        raise DataCorrupted(
            f"{plural(found.broken_files, 'file')} of {found.table} missing or of another size than committed, for "
            f"instance {found.broken[0].path}. {_advise(found)}",
            reason="FILES_BROKEN",
            metadata={"table": found.table, "files": str(found.broken_files)},
        )
    if found.log_needs_restart:
        raise HistoryDiverged(
            f"The log of {found.table} does not belong to the table any more. `lakelog table check {found.table} "
            "--repair` restarts it after the newest snapshot.",
            reason="LOG_DIVERGED",
            metadata={"table": found.table},
        )


def _advise(found: FileCheck) -> str:
    """What to do about broken files. Pure."""
    if found.broken_until is None:
        return "Restore them from a backup, or roll the table back to a snapshot without them."
    only = f"Only snapshots up to {found.broken_until} have them."
    if found.held_by:
        return f"{only} {'; '.join(found.held_by)}: end that, and repair again."
    return f"{only} Restore them from a backup, or expire these snapshots: lakelog table check {found.table} --repair."


def _show(printer: Printer, found: FileCheck, *, repaired: bool) -> None:
    record = _to_record(found)
    if printer.is_json:
        printer.document(record)
        return
    printer.facts((*_FACTS, *(each for each in _REPAIRS if record[each.key] not in (None, 0, (), ""))), record)
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
        {
            "path": each.path,
            "use": each.use.value,
            "bytes": each.size_bytes,
            "found_bytes": each.found_bytes,
            "last_snapshot_id": each.last_snapshot_id,
        }
        for each in found.broken
    ]
    return record
