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
from lakelog.errors import DataCorrupted, HistoryDiverged, InvalidArgument
from lakelog.sdk.maintenance.checking.file_check_result import BrokenFile, FileCheck, LostSnapshots

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
_MOST_TAGS: Final = 20
"""Tags that a sentence names; the rest are counted."""
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
        "lakelog table check shop.orders --repair --forget-lost",
    ),
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--repair", is_flag=True, help="Repair what can be repaired, and say what was done.")
@click.option(
    "--forget-lost",
    is_flag=True,
    help="With --repair: also expire the snapshots whose files are lost, and all before them, and delete their tags.",
)
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
def check(invocation: Invocation, name: str, repair: bool, forget_lost: bool, older_than: int, yes: bool) -> None:
    """Compare a table's files with those that it refers to, and its log with its history.

    Files without a reference come from writers that died, from tasks that came too late, from other programs, or from
    commits that a restore of the metastore's database has lost. Writers can go on meanwhile. If files are missing, or
    have another size than was committed, or if the log needs a restart, the exit code is 1.

    A repair deletes files without a reference where that is safe. It restarts a log that has snapshots which the table
    has lost; all consumers of the log must then read the whole table once. With --forget-lost it expires the old
    snapshots whose files are missing, and deletes their tags. Snapshots before the last of them go too, even if they
    can be read: the question and the check name them.
    """
    table = invocation.catalog.table(name)
    if forget_lost and not repair:
        raise InvalidArgument(
            "--forget-lost is a part of a repair: add --repair, or leave it out.", metadata={"field": "forget-lost"}
        )
    limit = dt.timedelta(milliseconds=older_than)
    if repair and not yes:
        found = table.check_files(older_than=limit) if forget_lost else None
        confirm(invocation, _ask(table.name, found), yes, declined="Nothing was repaired.")
    found = table.check_files(repair, forget_lost=forget_lost, older_than=limit)
    _show(invocation.printer, found, repaired=repair)
    if found.broken_files:
        raise DataCorrupted(
            f"{plural(found.broken_files, 'file')} of {found.table} missing or of another size than committed, for "
            f"instance {found.broken[0].path}. {_advise(found)}",
            reason="FILES_BROKEN",
            metadata={"table": found.table, "files": str(found.broken_files)},
        )
    if found.log_needs_restart:
        advice = (
            f"`lakelog table check {found.table} --repair` restarts it after the newest snapshot."
            if found.log_is_ahead
            else "Find out what happened to its topic. Restore what was there, or restart the log after the newest "
            f"snapshot: lakelog log restart {found.table}."
        )
        raise HistoryDiverged(
            f"The log of {found.table} does not belong to the table any more. {advice}",
            reason="LOG_DIVERGED",
            metadata={"table": found.table},
        )


def _advise(found: FileCheck) -> str:
    """What to do about broken files. Pure."""
    if not found.present_files:
        return (
            f"Not one file of the table was found below {found.location}. Find out whether the warehouse is mounted "
            "there, and is the right one."
        )
    if found.broken_files == found.broken_changelogs:
        return (
            "They are changelogs: the changes of their snapshots cannot be read, the snapshots can. Restore them from "
            "a backup, or let the changes expire: lower changelog.time-retained and changelog.num-retained.min, then "
            f"lakelog table expire {found.table}."
        )
    if found.lost is None:
        return "Restore them from a backup, or roll the table back to a snapshot without them."
    only = f"Only snapshots up to {found.broken_until} have them."
    if found.held_by:
        return f"{only} {'; '.join(found.held_by)}: end that, and repair again."
    return (
        f"{only} Restore them from a backup, or give these snapshots up: lakelog table check {found.table} --repair "
        f"--forget-lost would {_describe(found.lost)}."
    )


def _ask(name: str, found: FileCheck | None) -> str:
    """The question before a repair; `found` is what was found if lost snapshots are to expire. Pure."""
    also = f", {_describe(found.lost)}" if found is not None and found.lost is not None else ""
    return f"Repair {name}: delete files that nothing refers to, restart its log if that is needed{also}?"


def _describe(lost: LostSnapshots) -> str:
    """What giving snapshots up does. Pure."""
    tags = f"delete {_name_tags(lost)}" if lost.tags else "delete no tags"
    if not lost.last:
        return f"expire no snapshots, and {tags}"
    return f"expire {_name_range(lost)} ({_count(lost)}), and {tags}"


def _name_range(lost: LostSnapshots) -> str:
    return f"snapshot {lost.last}" if lost.first == lost.last else f"snapshots {lost.first} to {lost.last}"


def _count(lost: LostSnapshots, *, gone: bool = False) -> str:
    verbs = "could be read, and went too" if gone else "can be read, and go too"
    readable = f"; {lost.readable} {verbs}" if lost.readable else ""
    return f"{lost.lacking} of them without files{readable}"


def _name_tags(lost: LostSnapshots) -> str:
    more = len(lost.tags) - _MOST_TAGS
    names = ", ".join(lost.tags[:_MOST_TAGS]) + (f" and {more} more" if more > 0 else "")
    return f"the tag{'' if len(lost.tags) == 1 else 's'} {names}"


def _show(printer: Printer, found: FileCheck, *, repaired: bool) -> None:
    record = _to_record(found)
    if printer.for_programs:
        printer.document(record)
        return
    printer.facts((*_FACTS, *(each for each in _REPAIRS if record[each.key] not in (None, 0, (), ""))), record)
    if found.expired is not None and found.expired.last:
        gone = found.expired
        printer.say(f"Expired {_name_range(gone)}: {_count(gone, gone=True)}. Those that other tags name stay.")
    orphans = record["orphans"]
    if repaired and not found.left_files:
        orphans = [each for each in orphans if each["deletable"] < each["files"]]
    for columns, title, rows in (
        (_ORPHANS, "", orphans),
        (_BROKEN, "", record["broken"]),
        (_BROKEN, "These files were missing or broken, and nothing needs them any more:", record["forgotten"]),
    ):
        if rows:
            printer.say(title)
            printer.records(columns, rows, empty="")
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
    record["broken"] = [_to_row(each) for each in found.broken]
    record["forgotten"] = [_to_row(each) for each in found.forgotten]
    return record


def _to_row(broken: BrokenFile) -> dict[str, Any]:
    return {
        "path": broken.path,
        "use": broken.use.value,
        "bytes": broken.size_bytes,
        "found_bytes": broken.found_bytes,
        "last_snapshot_id": broken.last_snapshot_id,
    }
