"""How far the external logs lag behind their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.log.state import LogInfo, PublishState
from lakelog.format.tables.snapshot import LogContent, Snapshot
from lakelog.log.settings import read_log_settings

_MAX_COUNTED: Final = 1000
"""Snapshots that are counted; the status says when there are more."""


@dataclass(frozen=True)
class LogStatus:
    """A log and its high watermark.

    Args:
        info: The log.
        state: What its publisher has reported.
        partitions: The number of the topic's partitions, by the table's options.
        snapshots_behind: Snapshots with records for the log that are not in it as a whole.
        rows_behind: Rows of these in the table's files, including the published rows of the first one.
        is_further: Whether there are more than were counted.
        behind_ms: The age of the first of them; 0: there is none.
    """

    info: LogInfo
    state: PublishState
    partitions: int
    snapshots_behind: int
    rows_behind: int
    is_further: bool
    behind_ms: int

    @property
    def problem(self) -> str:
        """Why publishing cannot go on; empty: no known problem."""
        if self.info.problem or self.state.problem:
            return self.info.problem or self.state.problem
        if self.snapshots_behind and not self.state.holder:
            return "No publisher serves it: start one (lakelog publisher run)."
        return ""


def load_log_status(metastore: Metastore, table_uuids: Sequence[str], now_ms: int) -> list[LogStatus]:
    """Returns how far logs are published.

    Args:
        metastore: Knows the logs.
        table_uuids: The tables, in the order of the result; none: all tables with a log, by name.
        now_ms: The time, in milliseconds since the epoch.

    Raises:
        NotFound: A given table has no log, or was dropped.
    """
    if table_uuids:
        return [_load(metastore, metastore.get_log(table_uuid), now_ms) for table_uuid in table_uuids]
    found = []
    for info in sorted(metastore.list_logs(), key=lambda info: str(info.name)):
        try:
            found.append(_load(metastore, info, now_ms))
        except NotFound:
            # The table was dropped after it was listed.
            continue
    return found


def _load(metastore: Metastore, info: LogInfo, now_ms: int) -> LogStatus:
    state = metastore.get_publish_state(info.table_uuid)
    table = metastore.get_table_by_uuid(info.table_uuid)
    settings = read_log_settings(table.options, has_primary_key=bool(table.schema.primary_key))
    unpublished: list[Snapshot] = []
    is_further = False
    if state.latest_snapshot_id > state.snapshot_id:
        page = metastore.list_snapshots(info.table_uuid, after=state.snapshot_id, limit=_MAX_COUNTED)
        unpublished = [each for each in page.snapshots if each.log is not LogContent.NONE]
        is_further = bool(page.snapshots) and page.snapshots[-1].snapshot_id < page.latest_snapshot_id
    return LogStatus(
        info=info,
        state=state,
        partitions=0 if settings is None else settings.partitions,
        snapshots_behind=len(unpublished),
        rows_behind=sum(each.added_rows for each in unpublished),
        is_further=is_further,
        behind_ms=max(0, now_ms - unpublished[0].committed_at_ms) if unpublished else 0,
    )
