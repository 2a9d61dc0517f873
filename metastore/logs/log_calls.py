"""External logs of tables: a part of `metastore.service`."""

from __future__ import annotations

from lakelog.format.log.state import LogInfo

from .topics import LogTopics


class LogCalls:
    """What `lakelog.client.metastore.logs.Logs` says of their topics."""

    log_topics: LogTopics

    async def list_logs(self) -> list[LogInfo]:
        """The logs of all tables that have one, by table uuid."""
        return await self.log_topics.list_logs()

    async def get_log(self, table_uuid: str) -> LogInfo:
        """A table's log; NotFound where it has none or the table was dropped."""
        return await self.log_topics.get_log(table_uuid)

    async def restart_log(self, table_uuid: str) -> LogInfo:
        """Begins a log anew, behind the newest snapshot, in the topic as it is now or made anew."""
        return await self.log_topics.restart(table_uuid)
