"""Topics of logs in memory."""

from __future__ import annotations

from lakelog.format.tables.table import TableName

from ..store.logs import LogTopic, LogTransaction, TopicLife
from .catalog import MemoryCatalog
from .state import StoredTopic

_USED = (TopicLife.CREATING, TopicLife.WANTED, TopicLife.LIVE)


class MemoryLogs(MemoryCatalog, LogTransaction):
    """See `metastore.store.logs.LogTransaction`."""

    async def put_log_topic(self, topic: LogTopic) -> None:
        stored = StoredTopic(topic, self._clock.now_ms())
        self._journal.put(self._state.log_topics, (topic.table_uuid, topic.generation), stored)

    async def delete_log_topic(self, table_uuid: str, generation: int) -> None:
        if (table_uuid, generation) in self._state.log_topics:
            self._journal.pop(self._state.log_topics, (table_uuid, generation))

    async def find_log_topic(self, table_uuid: str) -> LogTopic | None:
        found = [key for key in self._state.log_topics if key[0] == table_uuid]
        return self._state.log_topics[max(found)].topic if found else None

    async def lock_log_topic(self, table_uuid: str) -> LogTopic | None:
        return await self.find_log_topic(table_uuid)

    async def find_topic_user(self, topic_id: str, table_uuid: str) -> TableName | None:
        for stored in self._state.log_topics.values():
            each = stored.topic
            if each.topic_id == topic_id and each.table_uuid != table_uuid and each.life in _USED:
                known = await self.find_table_by_uuid(each.table_uuid)
                return TableName("", "") if known is None else known.info.name
        return None

    async def find_named_topics(self, name: str, table_uuid: str) -> list[tuple[LogTopic, TableName]]:
        found = await self.list_log_topics()
        return [each for each in found if each[0].topic == name and each[0].table_uuid != table_uuid]

    async def list_log_topics(self) -> list[tuple[LogTopic, TableName]]:
        names = {table.new.table_uuid: table.new.name for table in self._live()}
        newest: dict[str, LogTopic] = {}
        for key in sorted(self._state.log_topics):
            if key[0] in names:
                newest[key[0]] = self._state.log_topics[key].topic
        return [(topic, names[table_uuid]) for table_uuid, topic in newest.items()]

    async def list_unsettled_topics(self, abandoned_ms: int, limit: int) -> list[LogTopic]:
        known = {table.new.table_uuid for table in self._state.tables}
        abandoned_at_ms = self._clock.now_ms() - abandoned_ms
        found = [
            stored
            for stored in self._state.log_topics.values()
            if stored.topic.life in (TopicLife.WANTED, TopicLife.DROPPING)
            or (stored.topic.life is TopicLife.CREATING and stored.changed_at_ms <= abandoned_at_ms)
            or (stored.topic.life is TopicLife.GONE and stored.topic.table_uuid not in known)
        ]
        found.sort(key=lambda stored: stored.changed_at_ms)
        return [stored.topic for stored in found[:limit]]
