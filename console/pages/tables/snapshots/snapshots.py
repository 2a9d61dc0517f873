"""The snapshots of a table, the newest first, and its tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakelog.pictures.timeline import draw_timeline, load_timeline
from lakelog.sdk.tables.table import Table

from ...actions.offered import action_address, is_offered
from ...page import PAGE_ROWS, Column, Listing, Page, PageRequest, table_address
from ..numbers import Number, read_number
from ..opened import Opened, open_table, table_page
from ..pictures import draw
from ..rows import to_rows
from .comparison import compare
from .found_snapshots import SNAPSHOT

_SNAPSHOTS: Final = (
    Column("id", "Snapshot", "count"),
    Column("kind", "Kind", hint="COMPACT changes no row"),
    Column("committed_at", "Committed", "time"),
    Column("writer", "Writer", "ids"),
    Column("added_rows", "Added rows", "count"),
    Column("bytes_change", "Size ±", "growth", "the size of its files less that of the snapshot before"),
    Column("added_files", "Files +", "count", "files that it added"),
    Column("removed_files", "Files −", "count", "files that it removed"),
    Column("rows", "Stored rows", "count", "in live files, with rows that merging hides"),
    Column("bytes", "Size", "bytes"),
    Column("schema_id", "Schema", "count"),
    Column("watermark", "Watermark", "time"),
    Column("changelog", "Changelog", hint="whether it has changelog files"),
    Column("tags", "Tags", "code"),
)
_READ: Final = [column.key for column in _SNAPSHOTS if column.key not in ("bytes_change", "tags")]
_TAGS: Final = (
    Column("name", "Tag", "code"),
    Column("snapshot_id", "Snapshot", "count"),
    Column("committed_at", "Committed", "time"),
    Column("created_at", "Tagged", "time"),
    Column("rows", "Stored rows", "count"),
)


def snapshots(request: PageRequest) -> Page:
    """The snapshots, or the differences of two if the address names them."""
    opened = open_table(request)
    before, after = read_number(request.query.get("from"), SNAPSHOT), read_number(request.query.get("to"), SNAPSHOT)
    if before.value is not None and after.value is not None:
        parts = compare(request, opened.table, before.value, after.value)
        title = f"from snapshot {before.value} to {after.value}"
        return table_page(
            opened,
            "snapshots",
            "comparison.html",
            parts,
            title=title,
            is_live=False,
            before=before,
            after=after,
            rows_query=_ask_rows(opened.table.name, *sorted((before.value, after.value))),
        )
    return _list(request, opened, before, after)


def _ask_rows(name: str, after: int, until: int) -> str:
    return f"SELECT * FROM {name}$changelog WHERE _snapshot_id > {after} AND _snapshot_id <= {until}"


def _list(request: PageRequest, opened: Opened, before: Number, after: Number) -> Page:
    table = opened.table
    latest = request.catalog.metastore.list_latest([table.uuid])[0]
    tags = to_rows(table.system_table("tags").to_arrow())
    until = read_number(request.query.get("after"), SNAPSHOT)
    parts: dict[str, Any] = {
        "facts": {
            "latest": latest.snapshot_id or None,
            "earliest": latest.earliest_snapshot_id or None,
            "earliest_change": latest.earliest_change_id or None,
            "retained": latest.snapshot_id - latest.earliest_snapshot_id + 1 if latest.snapshot_id else 0,
        },
        "snapshots": _list_snapshots(
            request, table, until.value or latest.snapshot_id + 1, latest.earliest_snapshot_id, tags
        ),
        "tags": Listing(
            "tags", "Tags", _TAGS, _link(request, table, tags[:PAGE_ROWS]), "No snapshot has a name.", note=_more(tags)
        ),
    }
    picture = draw(lambda: load_timeline(table), draw_timeline) if latest.snapshot_id and until.value is None else None
    return table_page(
        opened,
        "snapshots",
        "snapshots.html",
        parts,
        is_live=until.value is None,
        picture=picture,
        before=before,
        after=after,
        until=until,
        newest=latest.snapshot_id,
    )


def _list_snapshots(
    request: PageRequest, table: Table, below: int, earliest: int, tags: list[dict[str, Any]]
) -> Listing:
    least = max(below - PAGE_ROWS, earliest, 1)
    names: dict[int, list[str]] = {}
    for tag in tags:
        names.setdefault(tag["snapshot_id"], []).append(tag["name"])
    found = to_rows(
        table.system_table("snapshots")
        .scan(_READ, "id >= :least AND id < :below", params={"least": least - 1, "below": below})
        .to_arrow()
    )
    sizes = {0: 0} | {row["id"]: row["bytes"] for row in found}
    rows = [
        {
            **row,
            "bytes_change": None if row["id"] - 1 not in sizes else row["bytes"] - sizes[row["id"] - 1],
            "tags": ", ".join(names.get(row["id"], [])) or None,
            "_links": {
                "id": table_address(table.name, f"snapshots/{row['id']}"),
                "schema_id": f"{table_address(table.name, 'history')}?to={row['schema_id']}",
            },
        }
        for row in reversed(found)
        if row["id"] >= least
    ]
    next_query = request.with_query(after=least, of=table.uuid) if least > max(earliest, 1) else None
    empty = (
        "There are no snapshots before this one: older ones have expired."
        if earliest
        else "There are no snapshots yet."
    )
    return Listing("snapshots", "Snapshots", _SNAPSHOTS, rows, empty, next_query)


def _link(request: PageRequest, table: Table, tags: list[dict[str, Any]]) -> list[dict[str, Any]]:
    offered = is_offered(request, table.info)

    def links(tag: Mapping[str, Any]) -> dict[str, str]:
        found = {"snapshot_id": table_address(table.name, f"snapshots/{tag['snapshot_id']}")}
        return found | ({"name": action_address(table.info, "delete-tag", tag=tag["name"])} if offered else {})

    return [{**tag, "_links": links(tag)} for tag in tags]


def _more(tags: list[dict[str, Any]]) -> str:
    return f"The first {PAGE_ROWS} of {len(tags):,} by name; lakelog tag list has all." if len(tags) > PAGE_ROWS else ""
