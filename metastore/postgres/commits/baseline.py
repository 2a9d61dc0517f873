"""The changelog baselines of tables, in Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.format.commit.facts import BaselineChange

from ..connection import arrays
from ..connection.session import InSession, Statement

_FIND_BASELINE: Final = """
SELECT file_id FROM baseline_file WHERE table_id = %s AND file_id = ANY(%s::bigint[]) AND baseline_until IS NULL
"""

_INSERT: Final = """
INSERT INTO baseline_file (table_id, file_id, baseline_from, partition_id, bucket)
SELECT f.table_id, f.file_id, {snapshot_id}, f.partition_id, f.bucket FROM {files}
"""

_BEGIN_ALL: Final = _INSERT.format(
    snapshot_id="%s::bigint", files="data_file f WHERE f.table_id = %s AND f.removed_snapshot IS NULL"
)

_BEGIN: Final = _INSERT.format(
    snapshot_id="n.snapshot_id",
    files="""unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS n(table_id, file_id, snapshot_id)
    JOIN data_file f ON f.table_id = n.table_id AND f.file_id = n.file_id""",
)

_END_ALL: Final = "UPDATE baseline_file SET baseline_until = %s WHERE table_id = %s AND baseline_until IS NULL"

_END: Final = """
UPDATE baseline_file t SET baseline_until = n.snapshot_id
FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS n(table_id, file_id, snapshot_id)
WHERE t.table_id = n.table_id AND t.file_id = n.file_id AND t.baseline_until IS NULL
"""

_HAS_PENDING_CHANGES: Final = """
SELECT EXISTS (
    SELECT FROM data_file f WHERE f.table_id = %s AND f.removed_snapshot IS NULL AND NOT EXISTS (
        SELECT FROM baseline_file t WHERE t.table_id = f.table_id AND t.file_id = f.file_id AND t.baseline_until IS NULL
    )
) OR EXISTS (
    SELECT FROM baseline_file t JOIN data_file f ON f.table_id = t.table_id AND f.file_id = t.file_id
    WHERE t.table_id = %s AND t.baseline_until IS NULL AND f.removed_snapshot IS NOT NULL
)
"""

_SET_DEFERS_CHANGELOG: Final = "UPDATE table_head SET defers_changelog = %s WHERE table_id = %s"


class PostgresBaselines(InSession):
    """See `metastore.store.baseline.BaselineTransaction`."""

    async def find_baseline(self, table_id: int, file_ids: Sequence[int]) -> frozenset[int]:
        rows = await self._session.write(_FIND_BASELINE, (table_id, arrays.integers(file_ids)))
        return frozenset(row[0] for row in rows)

    async def begin_baseline(self, table_id: int, snapshot_id: int) -> None:
        await self._session.write(_BEGIN_ALL, (snapshot_id, table_id))

    async def end_baseline(self, table_id: int, snapshot_id: int) -> None:
        await self._session.write(_END_ALL, (snapshot_id, table_id))

    async def has_pending_changes(self, table_id: int) -> bool:
        rows = await self._session.write(_HAS_PENDING_CHANGES, (table_id, table_id))
        return bool(rows[0][0])

    async def set_defers_changelog(self, table_id: int, defers_changelog: bool) -> None:
        await self._session.write(_SET_DEFERS_CHANGELOG, (defers_changelog, table_id))


def baseline_statements(records: Sequence[tuple[int, BaselineChange]]) -> list[Statement]:
    """The statements that write how snapshots changed the baseline, after those that write their files."""
    statements = []
    for sql, named in (
        (
            _END,
            [(table_id, file_id, baseline.snapshot_id) for table_id, baseline in records for file_id in baseline.ended],
        ),
        (
            _BEGIN,
            [(table_id, file_id, baseline.snapshot_id) for table_id, baseline in records for file_id in baseline.begun],
        ),
    ):
        if named:
            statements.append(Statement(sql, tuple(arrays.integers(column) for column in zip(*named, strict=True))))
    return statements
