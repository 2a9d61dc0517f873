"""One snapshot: who wrote it, what it changed, and what it carries."""

from __future__ import annotations

from typing import Any, Final

from lakelog.errors import InvalidArgument
from lakelog.format.commit.writer_names import is_of_job, is_one_time
from lakelog.format.tables.table import TableInfo

from ...actions.offered import Offer, action_address, is_offered
from ...page import Column, Listing, Page, PageRequest, table_address
from ..numbers import read_number
from ..opened import open_table, table_page
from ..rows import cut, to_rows
from .comparison import list_differences
from .found_snapshots import SNAPSHOT, find_snapshot, load_snapshots

_PROPERTIES: Final = (Column("key", "Property", "code"), Column("value", "Value", "code"))
_OFFSETS: Final = (Column("partition", "Partition of the topic", "count"), Column("offset", "Next offset", "count"))


def snapshot(request: PageRequest) -> Page:
    """A snapshot.

    Raises:
        SnapshotExpired: It has expired.
        NotFound: There is none of this number yet.
    """
    opened = open_table(request)
    table = opened.table
    wanted = read_number(request.path["snapshot"], SNAPSHOT)
    if wanted.value is None:
        raise InvalidArgument(wanted.problem, metadata={"field": "snapshot"})
    found = load_snapshots(table, wanted.value - 1, wanted.value)
    row = find_snapshot(request, table, found, wanted.value)
    before = found.get(wanted.value - 1)
    tags = [
        each["name"]
        for each in to_rows(
            table.system_table("tags").scan(filter="snapshot_id = :id", params={"id": wanted.value}).to_arrow()
        )
    ]
    parts: dict[str, Any] = {
        "facts": {**{key: row[key] for key in row if key not in ("properties", "log_offsets")}, "tags": tags},
        "properties": Listing(
            "properties",
            "Properties",
            _PROPERTIES,
            [{"key": key, "value": cut(value)} for key, value in sorted(row["properties"].items())],
            "Its writer noted nothing with it.",
        ),
    }
    if before is not None:
        parts["differences"] = list_differences(before, row)
    if row["log_offsets"] is not None:
        offsets = [{"partition": place, "offset": offset} for place, offset in enumerate(row["log_offsets"])]
        parts["log_offsets"] = Listing("log_offsets", "Where it ends in the log", _OFFSETS, offsets)
    return table_page(
        opened,
        "snapshots",
        "snapshot.html",
        parts,
        title=f"snapshot {wanted.value}",
        is_live=False,
        offers=_offer(request, table.info, wanted.value),
        about_writer=say_writer(row["writer"]),
        before=None if before is None else wanted.value - 1,
        base=table_address(table.name, "snapshots"),
    )


def _offer(request: PageRequest, info: TableInfo, snapshot_id: int) -> tuple[Offer, ...]:
    if not is_offered(request, info):
        return ()
    return (
        Offer("Tag it …", action_address(info, "tag", snapshot=snapshot_id)),
        Offer("Roll back to it …", action_address(info, "roll-back", to=snapshot_id)),
    )


def say_writer(writer: str) -> str:
    """What kind of writer this is."""
    if is_of_job(writer):
        return "a compactor's job"
    return "a single commit without a writer's name" if is_one_time(writer) else ""
