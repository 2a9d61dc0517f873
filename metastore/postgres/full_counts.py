"""What full compactions are made due by, in Postgres: commits that are counted, and the buckets they wrote."""

from __future__ import annotations

from typing import Final

from lakelog.format.commit import BucketRef
from lakelog.format.compaction.commit_count import CommitsSinceFull

from .commits import FIRST_FILE_BEHIND
from .session import Session

_FIND_COUNT: Final = "SELECT settled_until, counted_until, commit_count FROM full_count WHERE table_id = %s"

_PUT_COUNT: Final = """
INSERT INTO full_count (table_id, settled_until, counted_until, commit_count) VALUES (%s, %s, %s, %s)
ON CONFLICT (table_id) DO UPDATE SET settled_until = excluded.settled_until, counted_until = excluded.counted_until,
    commit_count = excluded.commit_count
"""

_COUNT_COMMITS: Final = """
SELECT count(*) FROM snapshot WHERE table_id = %s AND snapshot_id > %s AND snapshot_id <= %s AND kind <> 'COMPACT'
"""

# SUBTLE: as `_FIND_CHANGES` of commits.py, by ranges of the primary key and of the index of removed files.
_LIST_WRITTEN: Final = f"""
WITH changed AS (
    SELECT partition_id, bucket, added_snapshot AS snapshot_id FROM data_file
    WHERE table_id = %s AND file_id >= {FIRST_FILE_BEHIND} AND added_snapshot > %s AND added_snapshot <= %s
    UNION
    SELECT partition_id, bucket, removed_snapshot FROM data_file
    WHERE table_id = %s AND removed_snapshot > %s AND removed_snapshot <= %s
)
SELECT DISTINCT coalesce(p.encoded, ''), c.bucket
FROM changed c
JOIN LATERAL (SELECT kind, changelog FROM snapshot WHERE table_id = %s AND snapshot_id = c.snapshot_id LIMIT 1) s
    ON s.kind <> 'COMPACT' OR s.changelog = 'later'
LEFT JOIN table_partition p ON p.partition_id = c.partition_id
ORDER BY 1, 2
"""


class PostgresFullCounts:
    """See `metastore.told_store.ToldTransaction`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def find_full_count(self, table_id: int) -> CommitsSinceFull | None:
        """The commits since the last full compaction that they made due; None: they were never counted."""
        row = await self._session.read_one(_FIND_COUNT, (table_id,))
        return None if row is None else CommitsSinceFull(*row)

    async def put_full_count(self, table_id: int, known: CommitsSinceFull) -> None:
        """Writes this down, for whoever plans the table's work next."""
        await self._session.write(_PUT_COUNT, (table_id, known.settled_until, known.counted_until, known.count))

    async def count_data_commits(self, table_id: int, after: int, until: int) -> int:
        """How many of some snapshots are no compactions."""
        row = await self._session.read_one(_COUNT_COMMITS, (table_id, after, until))
        assert row is not None, "a count has a row whatever there is"
        return int(row[0])

    async def list_written_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
        """Where some snapshots added or removed files, in order."""
        at = str(table_id), str(after), str(until)
        parameters = (at[0], at[0], at[1], at[1], at[2], *at, at[0])
        return [BucketRef(row[0], row[1]) for row in await self._session.read(_LIST_WRITTEN, parameters)]
