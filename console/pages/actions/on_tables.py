"""Actions on a table: compact, expire, tag, delete a tag, roll back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakelog.cli.output.text import format_bytes, format_count, plural
from lakelog.errors import InvalidArgument, NotFound, PermissionDenied, SnapshotExpired
from lakelog.sdk.maintenance.compaction_result import CompactionState
from lakelog.sdk.maintenance.expiry import describe_snapshot_lease
from lakelog.sdk.tables.table import Table

from ..page import PageRequest, table_address
from ..rights import may_write
from .action import Action, Field, Question, number_of, value_of


def find_table(request: PageRequest) -> Table:
    """The table of the address, which the caller may write to.

    Raises:
        PermissionDenied: It may not.
    """
    table = request.catalog.table(f"{request.path['database']}.{request.path['table']}")
    if not may_write(request.catalog, table.uuid):
        raise PermissionDenied(f"You may read {table.name}, but not write to it: its owner grants it.")
    return table


def on_table(
    title: str,
    ask: Callable[[PageRequest, Table], Question],
    do: Callable[[PageRequest, Table], str],
    page: str = "",
) -> Action[Table]:
    """An action on a table; afterwards one of the table's pages follows."""
    return Action(
        title,
        find_table,
        ask,
        do,
        lambda table: table.name,
        lambda table: table_address(table.name, page),
        lambda table: table.uuid,
    )


def _ask_compact(request: PageRequest, table: Table) -> Question:
    full = value_of(request, "full") == "yes"
    planned = table.compact(full=full, wait=False, dry_run=True)
    due = [each for each in planned.buckets if each.state is not CompactionState.NOTHING]
    size = format_bytes(sum(each.size_bytes for each in due))
    files = plural(sum(each.files for each in due), "file")
    what = (
        f"Compactors rewrite {plural(len(due), 'bucket')} with {files}, {size}."
        if due
        else "No bucket needs it now: nothing would be done."
    )
    return Question(
        (what, "Rows that reads return do not change, and writers can go on."),
        ("table", "compact", table.name, *(["--full"] if full else []), "--no-wait"),
        (Field("full", "Each bucket as a whole, not only what is due", "yes" if full else "", is_flag=True),),
    )


def _compact(request: PageRequest, table: Table) -> str:
    found = table.compact(full=value_of(request, "full") == "yes", wait=False)
    count = len(found.job_ids)
    return f"{plural(count, 'bucket')} of {table.name} will be compacted." if count else "There is nothing to compact."


def _ask_expire(request: PageRequest, table: Table) -> Question:
    planned = table.expire_snapshots(dry_run=True)
    sentences = [
        f"{plural(planned.snapshots, 'snapshot')} that the table's options no longer keep can then not be read any "
        f"more, and compactors delete {plural(planned.files, 'file')}, {format_bytes(planned.size_bytes)}.",
        *(f"More would expire, but {describe_snapshot_lease(lease)}." for lease in planned.held_by[:20]),
    ]
    return Question(sentences, ("table", "expire", table.name), is_dangerous=planned.snapshots > 0)


def _expire(request: PageRequest, table: Table) -> str:
    done = table.expire_snapshots()
    return f"{plural(done.snapshots, 'snapshot')} of {table.name} expired."


def _ask_tag(request: PageRequest, table: Table) -> Question:
    newest = str(table.info.latest_snapshot_id)
    snapshot, tag = value_of(request, "snapshot", newest), value_of(request, "tag")
    return Question(
        ("The snapshot gets a name, and does not expire while it has one.",),
        ("tags", "create", table.name, tag or "TAG", "--snapshot", snapshot or newest),
        (
            Field("tag", "Tag", tag, "letters, digits, _, - and ., not digits only"),
            Field("snapshot", "Snapshot", snapshot, f"the newest is {newest}"),
        ),
    )


def _tag(request: PageRequest, table: Table) -> str:
    tag = value_of(request, "tag")
    if not tag:
        raise InvalidArgument("Type a name for the tag.", metadata={"field": "tag"})
    snapshot_id = table.tags.create(tag, number_of(request, "snapshot", "Snapshot", 1))
    return f"Snapshot {snapshot_id} of {table.name} has the tag {tag}."


def _ask_delete_tag(request: PageRequest, table: Table) -> Question:
    tag = value_of(request, "tag")
    tags = _load_tags(table)
    if tag not in tags:
        raise InvalidArgument(f"{table.name} has no tag {tag!r:.200}.", metadata={"field": "tag"})
    what = f"Snapshot {tags[tag]} loses the tag {tag}. It may expire then, as the table's options say."
    command = ("tags", "delete", table.name, tag, "--yes")
    return Question((what,), command, hidden={"tag": tag, "seen": str(tags[tag])}, is_dangerous=True)


def _load_tags(table: Table) -> dict[str, int]:
    return {each["name"]: each["snapshot_id"] for each in table.tags.list().to_pylist()}


def _delete_tag(request: PageRequest, table: Table) -> str:
    tag = value_of(request, "tag")
    snapshot_id = _load_tags(table).get(tag)
    if value_of(request, "seen") != str(snapshot_id):
        raise InvalidArgument(f"The tag {tag:.200} was of another snapshot when the page was made: look again.")
    table.tags.delete(tag)
    return f"The tag {tag} of {table.name} is deleted."


def _ask_roll_back(request: PageRequest, table: Table) -> Question:
    latest = table.info.latest_snapshot_id
    to = value_of(request, "to", str(max(latest - 1, 1)))
    what = (
        f"The table, now at snapshot {latest}, gets the rows of an earlier snapshot. This is one more commit: nothing "
        "is lost, and it can be rolled back as well. Readers see it at once."
    )
    return Question(
        (what, _say_what_is_undone(request, table, to)),
        ("table", "rollback", table.name, "--to", to or "N", "--if-snapshot", str(latest)),
        (Field("to", "Snapshot or tag", to, "a snapshot that is kept, or a tag"),),
        # What the page saw: the form is refused once the table has changed.
        {"seen": str(latest)},
        typed_name=table.name,
        is_dangerous=True,
    )


def _say_what_is_undone(request: PageRequest, table: Table, to: str) -> str:
    latest = table.info.latest_snapshot_id
    try:
        scan = table.scan(snapshot_id=int(to)) if _is_number(to) else table.scan(tag=to)
    except (InvalidArgument, NotFound, SnapshotExpired) as error:
        return error.message
    if scan.snapshot_id == latest:
        return "That is the newest snapshot: nothing would be changed."
    before, after = (_count_rows(request, table, each) for each in (latest, scan.snapshot_id))
    return (
        f"{plural(latest - scan.snapshot_id, 'later snapshot')} would be undone; {format_count(after)} instead of "
        f"{format_count(before)} stored rows would be live."
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _count_rows(request: PageRequest, table: Table, snapshot_id: int) -> int:
    """The stored rows of a snapshot: from its counts, without a list of its files."""
    page = request.catalog.metastore.list_snapshots(table.uuid, after=snapshot_id - 1, until=snapshot_id, limit=1)
    return page.snapshots[0].total_rows if page.snapshots else 0


def _roll_back(request: PageRequest, table: Table) -> str:
    to = value_of(request, "to")
    seen = number_of(request, "seen", "The snapshot that the page saw")
    done = table.rollback_to(int(to) if _is_number(to) else to, if_snapshot=seen)
    if done.snapshot_id is None:
        return f"{table.name} has the state of {to} already; nothing was changed."
    return f"{table.name} has the rows of {to} again, with snapshot {done.snapshot_id}."


COMPACT: Final = on_table("Compact", _ask_compact, _compact, "jobs")
EXPIRE: Final = on_table("Expire snapshots", _ask_expire, _expire, "snapshots")
TAG: Final = on_table("Tag a snapshot", _ask_tag, _tag, "snapshots")
DELETE_TAG: Final = on_table("Delete a tag", _ask_delete_tag, _delete_tag, "snapshots")
ROLL_BACK: Final = on_table("Roll back", _ask_roll_back, _roll_back, "snapshots")
