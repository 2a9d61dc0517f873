"""External logs of tables in this process; see `metastore.inprocess`."""

from __future__ import annotations

from lakelog.format.log.state import LogInfo

from .inprocess_dropped import Running


class InProcessLogs:
    """The part of `InProcessMetastore` that is about topics of logs."""

    def list_logs(self: Running) -> list[LogInfo]:
        """The logs of all tables that have one, by table uuid."""
        return self.run(self.service.list_logs())

    def get_log(self: Running, table_uuid: str) -> LogInfo:
        """A table's log; NotFound where it has none or the table was dropped."""
        return self.run(self.service.get_log(table_uuid))

    def restart_log(self: Running, table_uuid: str) -> LogInfo:
        """Begins a log anew, behind the newest snapshot."""
        return self.run(self.service.restart_log(table_uuid))
