"""Tables with an external log, and commits to them, shared by tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.log_content import to_log_file
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.format.tables.snapshot import LogContent
from lakelog.format.tables.table import TableInfo
from lakelog.reads.log.plan import plan_log
from tests.support.metastore.making import make_change, make_file, make_table


def make_log_table(metastore: Metastore, *, keyed: bool = True, options: Mapping[str, str] | None = None) -> TableInfo:
    """A table with four buckets, or none, and a log."""
    given = {"log.system": "kafka", **({"bucket": "4"} if keyed else {}), **(options or {})}
    return make_table(metastore, keyed=keyed, options=given)


def commit_segments(
    metastore: Metastore,
    table: TableInfo,
    identifier: int,
    names: str = "a",
    *,
    buckets: Sequence[int] = (),
    own: bool = True,
    **change: Any,
) -> CommitResult:
    """Commits a data file for each letter of `names`, each with a segment of its own, or as its own segment."""
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    places = buckets or [0] * len(names)
    data = [
        make_file(attempt, f"{name}{identifier}", bucket=bucket) for name, bucket in zip(names, places, strict=True)
    ]
    segments = [
        make_file(attempt, f"log-{name}{identifier}", bucket=bucket) for name, bucket in zip(names, places, strict=True)
    ]
    logged = segments if own else [to_log_file(file) for file in data]
    fields: dict[str, Any] = {"log": LogContent.SEGMENTS, "log_files": tuple(logged), **change}
    if "sent_offsets" in change:
        fields.setdefault("sent_generation", 1)
    return metastore.commit(CommitRequest("w", identifier, (make_change(table, data, **fields),), attempt))


def plan_names(metastore: Metastore, table: TableInfo, after: int, until: int) -> list[str]:
    """The names of the files of the log of some snapshots, in its order."""
    plan = plan_log(metastore, table.table_uuid, after, until)
    assert [each.snapshot_id for each in plan.snapshots] == list(range(after + 1, until + 1))
    return [file.path.split("/")[-1][:-8] for chunk in plan.chunks for file in chunk.files]
