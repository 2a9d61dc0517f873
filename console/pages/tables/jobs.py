"""The jobs of a table, and how much compactions write for what commits write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from lakelog.format.jobs.job import JobStatus
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.sdk.tables.table import Table
from lakelog.system_tables.metadata.jobs import to_columns

from ..actions.offered import is_offered
from ..job_lists import RETRIED, STATES, list_runs, load_page
from ..page import Column, Listing, Page, PageRequest
from .opened import open_table, table_page
from .rows import to_rows

_SNAPSHOTS: Final = 1000
"""The newest ones, over which the amplification is summed."""

_JOBS: Final = (
    Column("id", "Job", "count"),
    Column("kind", "Kind"),
    Column("state", "State", "state"),
    Column("partition", "Partition", "code"),
    Column("bucket", "Bucket", "count"),
    Column("priority", "Priority", "count"),
    Column("attempts", "Attempts", "count", "since its last success"),
    Column("holder", "Done by", "code"),
    Column("outcome", "Did last"),
    Column("reason", "Why it failed last"),
    Column("created_at", "Due since", "time", "when it first became due"),
    Column("updated_at", "Changed", "time"),
    Column("payload", "To do", "json"),
)


def jobs(request: PageRequest) -> Page:
    """The jobs, those that need somebody first."""
    opened = open_table(request)
    table = opened.table
    metastore = request.catalog.metastore
    offered = is_offered(request, table.info)
    found, following = load_page(metastore, request.query, [table.uuid])
    rows = to_rows(pa.table(to_columns(found, lambda _: table.info.schema)))
    counts: Counter[str] = Counter()
    for each in metastore.count_jobs([table.uuid]):
        counts[each.status.value] += each.count
    parts: dict[str, Any] = {
        "facts": {state: counts[state] for state in STATES},
        "amplification": measure_amplification(_load_counts(table)),
        "jobs": Listing(
            "jobs",
            "Jobs",
            _JOBS,
            [{**row, "_links": _retry_link(row, offered)} for row in rows],
            "Compactors have had nothing to do for this table.",
            None if following is None else request.with_query(after=following, of=table.uuid),
            note=f"{counts.total():,} in all, those that need somebody first." if following is not None else "",
        ),
        "history": list_runs(request, [table.uuid], lambda _: table.info.schema),
    }
    is_first = not (request.query.get("after") or request.query.get("runs_before"))
    return table_page(opened, "jobs", "jobs.html", parts, is_live=is_first)


def _load_counts(table: Table) -> list[dict[str, Any]]:
    after = max(table.info.latest_snapshot_id - _SNAPSHOTS, 0)
    columns = ["id", "kind", "added_rows", "added_files", "rows", "bytes"]
    found = table.system_table("snapshots").scan(columns, "id > :after", params={"after": after})
    return to_rows(found.to_arrow())


def measure_amplification(snapshots: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What commits and compactions wrote, by rows of `$snapshots`. Pure.

    Snapshots count rows and not bytes that they added, so bytes are rows of the average size at that snapshot.
    """
    sums: Counter[str] = Counter()
    count = 0
    for each in snapshots:
        who = "compactions" if each["kind"] == SnapshotKind.COMPACT.value else "commits"
        row_bytes = each["bytes"] / each["rows"] if each["rows"] else 0
        sums[f"{who}_rows"] += each["added_rows"]
        sums[f"{who}_bytes"] += round(each["added_rows"] * row_bytes)
        sums[f"{who}_files"] += each["added_files"]
        sums[who] += 1
        count += 1
    keys = [f"{who}{what}" for who in ("commits", "compactions") for what in ("", "_files", "_rows", "_bytes")]
    written = sums["commits_bytes"]
    factor = None if not written else round((written + sums["compactions_bytes"]) / written, 2)
    return {"snapshots": count, **{key: sums[key] for key in keys}, "factor": factor}


def _retry_link(row: Mapping[str, Any], offered: bool) -> dict[str, str]:
    is_retried = offered and JobStatus(row["state"]) in RETRIED
    return {"id": f"/jobs/{row['id']}/act/retry"} if is_retried else {}
