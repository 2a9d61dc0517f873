"""Which snapshots come out of a table's log, and how: a table of what they are and what the table is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.schema import TableSchema, assign_field_ids
from lakelog.format.snapshot import ChangelogState, LogContent, SnapshotKind
from lakelog.reads.changes import TOLD_ROWS
from lakelog.reads.log_ways import LogWay, LogWays
from tests.unit.cli.conftest import make_snapshot

SCHEMA = assign_field_ids(pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())]))
KEYED = TableSchema(3, SCHEMA, ("k",))
APPEND = TableSchema(3, SCHEMA, ())
OTHER = {"schema_id": 2}
LATE = {"changelog": ChangelogState.LATER}
LARGE = {"added_rows": TOLD_ROWS + 1}
COMPACT = {"kind": SnapshotKind.COMPACT, "log": LogContent.NONE}
TOLD = {"changelog": ChangelogState.ATTACHED}
CHANGELOG = {"log": LogContent.CHANGELOG}


@pytest.mark.parametrize(
    ("schema", "is_upsert", "is_lookup", "snapshot", "expected"),
    [
        (APPEND, False, False, {}, LogWay.AS_LOGGED),
        (APPEND, False, False, LARGE, LogWay.AS_LOGGED),
        (APPEND, False, False, OTHER, LogWay.FILES),
        (APPEND, False, False, {"log": LogContent.NONE}, LogWay.FILES),
        (APPEND, False, False, COMPACT, LogWay.NOTHING),
        (KEYED, True, False, {}, LogWay.NORMALIZED),
        (KEYED, True, False, OTHER, LogWay.FILES),
        (KEYED, True, False, LARGE, LogWay.FILES),
        (KEYED, True, False, LATE, LogWay.FILES),
        (KEYED, True, False, COMPACT, LogWay.NOTHING),
        (KEYED, True, False, COMPACT | TOLD, LogWay.FILES),
        (KEYED, True, True, TOLD, LogWay.LOOKED_UP),
        (KEYED, False, True, CHANGELOG | TOLD, LogWay.AS_LOGGED),
        (KEYED, True, True, CHANGELOG | TOLD, LogWay.LOOKED_UP),
        (KEYED, True, False, CHANGELOG | TOLD, LogWay.FILES),
    ],
)
def test_how_changes_are_known(
    schema: TableSchema, is_upsert: bool, is_lookup: bool, snapshot: dict[str, Any], expected: LogWay
) -> None:
    ways = LogWays(schema, is_upsert, is_lookup)
    given = {"schema_id": 3, "log": LogContent.DATA} | snapshot
    assert ways.find(make_snapshot(5, **given)) is expected
