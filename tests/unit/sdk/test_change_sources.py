"""Which snapshots come out of a table's log, and how: a table of what they are and what the table is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import (
    HistoryDiverged,
    InvalidArgument,
    LakelogError,
    NotFound,
    PermissionDenied,
    SnapshotExpired,
    Unavailable,
)
from lakelog.format.tables.snapshot import ChangelogState, LogContent, SnapshotKind
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.reads.changes import EMITTED_ROWS
from lakelog.reads.log.sources import LOG_TOO_SHORT, ChangeSource, ChangeSources, can_do_without_log
from tests.support.snapshots import make_snapshot

SCHEMA = assign_field_ids(pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())]))
KEYED = TableSchema(3, SCHEMA, ("k",))
APPEND = TableSchema(3, SCHEMA, ())
OTHER = {"schema_id": 2}
LATE = {"changelog": ChangelogState.LATER}
LARGE = {"added_rows": EMITTED_ROWS + 1}
COMPACT = {"kind": SnapshotKind.COMPACT, "log": LogContent.NONE}
ATTACHED_CHANGELOG = {"changelog": ChangelogState.ATTACHED}
CHANGELOG = {"log": LogContent.CHANGELOG}


@pytest.mark.parametrize(
    ("schema", "is_upsert", "is_lookup", "snapshot", "expected"),
    [
        (APPEND, False, False, {}, ChangeSource.AS_LOGGED),
        (APPEND, False, False, LARGE, ChangeSource.AS_LOGGED),
        (APPEND, False, False, OTHER, ChangeSource.FILES),
        (APPEND, False, False, {"log": LogContent.NONE}, ChangeSource.FILES),
        (APPEND, False, False, COMPACT, ChangeSource.NOTHING),
        (KEYED, True, False, {}, ChangeSource.NORMALIZED),
        (KEYED, True, False, OTHER, ChangeSource.FILES),
        (KEYED, True, False, LARGE, ChangeSource.FILES),
        (KEYED, True, False, LATE, ChangeSource.FILES),
        (KEYED, True, False, COMPACT, ChangeSource.NOTHING),
        (KEYED, True, False, COMPACT | ATTACHED_CHANGELOG, ChangeSource.FILES),
        (KEYED, True, True, ATTACHED_CHANGELOG, ChangeSource.LOOKED_UP),
        (KEYED, False, True, CHANGELOG | ATTACHED_CHANGELOG, ChangeSource.AS_LOGGED),
        (KEYED, True, True, CHANGELOG | ATTACHED_CHANGELOG, ChangeSource.LOOKED_UP),
        (KEYED, True, False, CHANGELOG | ATTACHED_CHANGELOG, ChangeSource.FILES),
    ],
)
def test_how_changes_are_known(
    schema: TableSchema, is_upsert: bool, is_lookup: bool, snapshot: dict[str, Any], expected: ChangeSource
) -> None:
    ways = ChangeSources(schema, is_upsert, is_lookup)
    given = {"schema_id": 3, "log": LogContent.DATA} | snapshot
    assert ways.find(make_snapshot(5, **given)) is expected


@pytest.mark.parametrize(
    ("error", "insisting", "else_"),
    [
        (Unavailable("away"), True, True),
        (NotFound("no log", reason="LOG_NOT_FOUND"), True, True),
        (NotFound("dropped", reason="TABLE_NOT_FOUND"), False, False),
        (SnapshotExpired("cut", reason=LOG_TOO_SHORT), True, True),
        (SnapshotExpired("the files are gone", reason="SNAPSHOT_EXPIRED"), False, False),
        (PermissionDenied("not for you"), False, True),
        (InvalidArgument("no client of Kafka is installed"), False, True),
        (HistoryDiverged("set back"), False, False),
    ],
)
def test_when_files_take_the_place_of_a_log(error: LakelogError, insisting: bool, else_: bool) -> None:
    found = [can_do_without_log(error, requires_log=requires_log) for requires_log in (True, False)]
    assert found == [insisting, else_]
