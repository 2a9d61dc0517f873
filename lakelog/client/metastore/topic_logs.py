"""What the metastore does for the topics of logs: a part of `lakelog.client.metastore.metastore.Metastore`."""

from __future__ import annotations

from typing import Protocol

from lakelog.format.log.state import LogInfo


class TopicLogs(Protocol):
    """Logs of tables, and the topics that hold them."""

    def list_logs(self) -> list[LogInfo]:
        """The logs of all tables that have one, by table uuid."""
        ...

    def get_log(self, table_uuid: str) -> LogInfo:
        """A table's log; NotFound if it has none or the table was dropped."""
        ...

    def restart_log(self, table_uuid: str) -> LogInfo:
        """Restarts a log after the newest snapshot, in the topic as it is now or made again (R10's way out).

        Not idempotent: each call begins another generation.

        Raises:
            NotFound: As in `get_log`.
            InvalidArgument: The topic does not fit the table.
            CommitConflict: Another caller has restarted it meanwhile.
            Unavailable: Its brokers do not answer.
        """
        ...
