"""The first page of a table: what it is, how it is used, and some of its rows."""

from __future__ import annotations

from typing import Any, Final

from lakelog.format.tables.snapshot import Snapshot
from lakelog.options.values import TableOptions
from lakelog.privacy.redaction import blot_out_forms
from lakelog.sdk.tables.table import Table
from lakelog.system_tables.metadata.definition import describe_columns

from ..actions.offered import offer_on_table
from ..page import Column, Listing, Page, PageRequest, table_address
from .opened import open_table, table_page
from .options import list_defaults, list_set_options
from .rows import to_rows
from .sample.sample import load_sample
from .snippets import list_snippets

COLUMNS: Final = (
    Column("column", "Column", "code"),
    Column("type", "Type", "code"),
    Column("nullable", "Can be NULL", "flag"),
    Column("primary_key_position", "Key", "count", "its place in the primary key"),
    Column("partition_position", "Partition", "count", "its place among the partition columns"),
    Column("default", "Default", "code", "what a write stores that leaves it out"),
    Column("comment", "Comment"),
    Column("field_id", "Id", "count", "it stays when the column is renamed"),
)


def table(request: PageRequest) -> Page:
    """A table."""
    opened = open_table(request)
    found = opened.table
    newest = find_newest(request, found)
    sample = load_sample(request, found, newest)
    parts: dict[str, Any] = {
        "facts": _describe(found, newest, request.now_ms),
        "schema": Listing("schema", "Columns", COLUMNS, to_rows(describe_columns(found.info.schema))),
        "options": list_set_options(found.info),
        "defaults": list_defaults(found.info),
        "snippets": list_snippets(found, request.settings.target),
    }
    if sample.rows is not None:
        parts["rows"] = sample.rows
    # Rows that somebody asked for stay as they are: reading them again every few seconds could cost much.
    return table_page(
        opened,
        "",
        "first.html",
        parts,
        is_live=not sample.is_asked,
        sample=sample,
        offers=offer_on_table(request, found.info),
        newest=newest,
        newest_address=table_address(found.name, f"snapshots/{found.info.latest_snapshot_id}"),
    )


def find_newest(request: PageRequest, found: Table) -> Snapshot | None:
    """The newest snapshot; None: there is none."""
    page = request.catalog.metastore.list_snapshots(found.uuid, limit=1, newest=True)
    return page.snapshots[-1] if page.snapshots else None


def _describe(found: Table, newest: Snapshot | None, now_ms: int) -> dict[str, Any]:
    info = found.info
    buckets = TableOptions(info.options).bucket_count(bool(found.primary_key))
    facts: dict[str, Any] = {
        "name": found.name,
        "comment": found.comment or None,
        "primary_key": list(found.primary_key),
        "partition_by": list(found.partition_by),
        "buckets": buckets if buckets > 0 else None,
        "schema_id": info.schema.schema_id,
        "uuid": found.uuid,
        "location": blot_out_forms(found.location),
        "created_at_ms": info.created_at_ms,
        "snapshot_id": info.latest_snapshot_id or None,
    }
    if newest is not None:
        facts |= {
            "committed_at_ms": newest.committed_at_ms,
            "age_ms": max(now_ms - newest.committed_at_ms, 0),
            "rows": newest.total_rows,
            "files": newest.total_files,
            "bytes": newest.total_bytes,
            "watermark_ms": newest.watermark_ms,
            "writer": newest.writer,
        }
    return facts
