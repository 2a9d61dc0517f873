"""Topics of logs in Postgres. Only its clock sets their times."""

from __future__ import annotations

import json
from typing import Final

from lakelog.format.tables.table import TableName

from ..store.logs import LogTopic, LogTransaction, TopicLife
from .catalog import NOW_MS
from .connection.session import InSession, Row

_COLUMNS: Final = """replace(l.table_uuid::text, '-', ''), l.generation, l.topic, l.topic_id, l.starts_after, l.named,
    l.state, l.options, l.problem"""

_PUT: Final = f"""
INSERT INTO log_topic (table_uuid, generation, topic, topic_id, starts_after, named, state, options, problem,
    changed_at_ms)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s, {NOW_MS})
ON CONFLICT (table_uuid, generation) DO UPDATE SET topic = excluded.topic, topic_id = excluded.topic_id,
    starts_after = excluded.starts_after, named = excluded.named, state = excluded.state, options = excluded.options,
    problem = excluded.problem, changed_at_ms = excluded.changed_at_ms
"""

_DELETE: Final = "DELETE FROM log_topic WHERE table_uuid = %s AND generation = %s"

_FIND: Final = f"SELECT {_COLUMNS} FROM log_topic l WHERE l.table_uuid = %s ORDER BY l.generation DESC LIMIT 1"

_LOCK: Final = f"{_FIND} FOR UPDATE"

# Two transactions that begin to use the same topic at once would not see each other.
_LOCK_TOPIC: Final = "SELECT pg_advisory_xact_lock(hashtextextended('topic ' || %s, 0))"

_FIND_USER: Final = """
SELECT coalesce(t.database, ''), coalesce(t.name, '')
FROM log_topic l LEFT JOIN catalog_table t ON t.table_uuid = l.table_uuid
WHERE l.topic_id = %s AND l.table_uuid <> %s AND l.state IN ('creating', 'wanted', 'live') LIMIT 1
"""

_FIND_NAMED: Final = f"""
SELECT {_COLUMNS}, t.database, t.name
FROM log_topic l JOIN catalog_table t ON t.table_uuid = l.table_uuid AND t.dropped_at_ms IS NULL
WHERE l.topic = %s AND l.table_uuid <> %s AND l.state IN ('wanted', 'live') ORDER BY l.table_uuid
"""

_LIST: Final = f"""
SELECT DISTINCT ON (l.table_uuid) {_COLUMNS}, t.database, t.name
FROM log_topic l JOIN catalog_table t ON t.table_uuid = l.table_uuid AND t.dropped_at_ms IS NULL
ORDER BY l.table_uuid, l.generation DESC
"""

_LIST_UNSETTLED: Final = f"""
SELECT {_COLUMNS} FROM log_topic l
WHERE l.state <> 'live' AND (l.state IN ('wanted', 'dropping')
    OR l.state = 'creating' AND l.changed_at_ms <= {NOW_MS} - %s::bigint
    OR l.state = 'gone' AND NOT EXISTS (SELECT FROM catalog_table t WHERE t.table_uuid = l.table_uuid))
ORDER BY l.changed_at_ms LIMIT %s
"""


class PostgresLogs(InSession, LogTransaction):
    """See `metastore.store.logs.LogTransaction`."""

    async def put_log_topic(self, topic: LogTopic) -> None:
        await self._session.write(
            _PUT,
            (
                topic.table_uuid,
                topic.generation,
                topic.topic,
                topic.topic_id,
                topic.starts_after,
                topic.is_named,
                topic.life.value,
                json.dumps(dict(topic.options)),
                topic.problem,
            ),
        )

    async def delete_log_topic(self, table_uuid: str, generation: int) -> None:
        await self._session.write(_DELETE, (table_uuid, generation))

    async def find_log_topic(self, table_uuid: str) -> LogTopic | None:
        return await self._session.find(_FIND, (table_uuid,), _topic)

    async def lock_log_topic(self, table_uuid: str) -> LogTopic | None:
        rows = await self._session.write(_LOCK, (table_uuid,))
        return _topic(rows[0]) if rows else None

    async def find_topic_user(self, topic_id: str, table_uuid: str) -> TableName | None:
        await self._session.write(_LOCK_TOPIC, (topic_id,))
        return await self._session.find(_FIND_USER, (topic_id, table_uuid), lambda row: TableName(*row))

    async def find_named_topics(self, name: str, table_uuid: str) -> list[tuple[LogTopic, TableName]]:
        await self._session.write(_LOCK_TOPIC, (name,))
        rows = await self._session.read(_FIND_NAMED, (name, table_uuid))
        return [(_topic(row[:-2]), TableName(*row[-2:])) for row in rows]

    async def list_log_topics(self) -> list[tuple[LogTopic, TableName]]:
        return [(_topic(row[:-2]), TableName(*row[-2:])) for row in await self._session.read(_LIST)]

    async def list_unsettled_topics(self, abandoned_ms: int, limit: int) -> list[LogTopic]:
        rows = await self._session.read(_LIST_UNSETTLED, (str(abandoned_ms), limit))
        return [_topic(row) for row in rows]


def _topic(row: Row) -> LogTopic:
    table_uuid, generation, topic, topic_id, starts_after, is_named, life, options, problem = row
    return LogTopic(table_uuid, generation, topic, topic_id, starts_after, is_named, TopicLife(life), options, problem)
