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
        """A table's log; NotFound where it has none or the table was dropped."""
        ...

    def restart_log(self, table_uuid: str) -> LogInfo:
        """Begins a log anew, behind the newest snapshot, in the topic as it is now or made anew (R10's way out).

        Not idempotent: each call begins another generation.

        Raises:
            NotFound: As of `get_log`.
            InvalidArgument: The topic does not fit the table.
            CommitConflict: Another has begun it anew meanwhile.
            Unavailable: Its brokers cannot be reached.
        """
        ...
