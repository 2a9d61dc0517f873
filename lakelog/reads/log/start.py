"""Where a stream of one table begins when its changes come from the table's log (semantics 4.6).

Snapshots are shown as a whole and in order, so a place in the log is always between two snapshots: after the last one
that has no record at or after the place. If the log cannot answer, the times of commits do, as for files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import LakelogError
from lakelog.format.commit.log_content import find_log_content
from lakelog.format.log.state import LogInfo, PublishState
from lakelog.format.tables.snapshot import LogContent
from lakelog.format.tables.table import TableInfo
from lakelog.log.protocol import Log
from lakelog.log.settings import LogSettings
from lakelog.options.declared.log import STREAM_READ_MODE
from lakelog.options.declared.streams import STREAM_TIMESTAMP_MILLIS
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, FULL_COMPACTION
from lakelog.options.values import StreamOptions, TableOptions
from lakelog.reads.log.sources import can_do_without_log
from lakelog.reads.stream_start import StreamStart

_log = logging.getLogger(__name__)


def comes_from_log(table: TableInfo, settings: LogSettings) -> bool:
    """Whether the log shows what is written to a table, if nothing prevents it; else files show all. Pure."""
    options = TableOptions(table.options)
    producer = options.get(CHANGELOG_PRODUCER)
    if producer == FULL_COMPACTION:
        return False
    content = find_log_content(options, has_key=bool(table.schema.primary_key))
    # An upsert log leaves out the old rows of updates, and with `input` nothing can replace them.
    return content is not LogContent.CHANGELOG or not settings.is_upsert or producer == "lookup"


@dataclasses.dataclass(frozen=True)
class LogAccess:
    """How a table's log is found and read.

    Args:
        metastore: Knows the log, and how far it is published.
        open_log: Opens the brokers of a log, by its options.
    """

    metastore: Metastore
    open_log: Callable[[Mapping[str, str]], Log]


LogPlacing = Callable[[LogAccess, TableInfo, StreamStart, StreamOptions], StreamStart]
"""Moves the point where files begin, or go on, to where the log does."""


def place_by_log(
    access: LogAccess, table: TableInfo, start: StreamStart, options: StreamOptions, place: LogPlacing
) -> StreamStart:
    """Places a stream by the log if it can answer, else as for files."""
    try:
        return place(access, table, start, options)
    except LakelogError as error:
        if not can_do_without_log(error, requires_log=options.get(STREAM_READ_MODE) is not None):
            raise
        _log.warning("%s: times of commits tell where it begins instead of its log: %s", table.name, error)
        return start


def begin_by_log(access: LogAccess, table: TableInfo, start: StreamStart, options: StreamOptions) -> StreamStart:
    """Moves a beginning to its place in the log; blocks on the metastore and the brokers.

    - `latest`: after what is published. So commits that are not yet in the log are shown, as for any consumer that
      begins at the log's end.
    - `latest-full`: with the state of the newest snapshot whose end in the log is known; without a publisher with the
      newest snapshot, since then the log does not go on.
    - `from-timestamp`: with the first snapshot that has a record appended at or after the time, or that was committed
      at or after it.

    Other modes name their snapshot.

    Args:
        access: How the log is read.
        table: The table, the only one of the subscription.
        start: Where files would begin.
        options: The options of the subscription.

    Raises:
        LakelogError: The brokers cannot say what was appended when.
    """
    if options.mode in ("latest", "latest-full"):
        state = access.metastore.get_publish_state(table.table_uuid)
        behind = state.snapshot_id < start.after
        if options.mode == "latest":
            return StreamStart(state.snapshot_id, state.snapshot_uuid) if behind else start
        if not behind or not state.holder or state.problem:
            return start
        return StreamStart(state.snapshot_id, state.snapshot_uuid, full_at=state.snapshot_id or None)
    if options.mode != "from-timestamp":
        return start
    since_ms = options.get(STREAM_TIMESTAMP_MILLIS)
    assert since_ms is not None, "the options were checked"
    before = find_logged_before(access.metastore, table.table_uuid, since_ms, access.open_log)
    # By the metastore's clock, later commits are later too, even if brokers have another clock.
    after = start.after if before is None else min(start.after, before.snapshot_id)
    return StreamStart(after, first_record_ms=since_ms)


def go_on_by_log(access: LogAccess, table: TableInfo, start: StreamStart, options: StreamOptions) -> StreamStart:
    """What a reader that goes on still skips, by the log's times; as `begin_by_log`."""
    if start.first_time_ms is None:
        return start
    since_ms = start.first_time_ms
    before = find_logged_before(access.metastore, table.table_uuid, since_ms, access.open_log)
    has_begun = before is not None and before.first_id is not None and start.after >= before.first_id - 1
    # Everything after the first shown snapshot is shown, whatever the clocks of other brokers say.
    return dataclasses.replace(start, first_time_ms=None, first_record_ms=None if has_begun else since_ms)


@dataclasses.dataclass(frozen=True)
class LoggedBefore:
    """What was appended to a log before a time, in whole snapshots.

    Args:
        snapshot_id: No record up to it was appended at or after the time.
        first_id: The first snapshot after it that may have such a record; None: it is not published as a whole yet.
    """

    snapshot_id: int
    first_id: int | None


def find_logged_before(
    metastore: Metastore, table_uuid: str, time_ms: int, open_log: Callable[[Mapping[str, str]], Log]
) -> LoggedBefore | None:
    """Finds what was appended to a table's log before a time, in whole snapshots.

    Partitions can disagree, since a snapshot's records reach them one after the other: a snapshot is later if one of
    its records is.

    Returns:
        None: the log cannot answer, because later records may have expired, or it was restarted.

    Raises:
        LakelogError: The brokers do not answer, or refuse.
    """
    info = metastore.get_log(table_uuid)
    # Read before the log: a snapshot that it does not name was published later, or is not published yet.
    state = metastore.get_publish_state(table_uuid)
    with contextlib.closing(open_log(info.options).open_reader(info.topic)) as reader:
        firsts = reader.list_offsets(earliest=True)
        begins = reader.list_offsets(timestamp_ms=time_ms)
    if state.generation != info.generation or _may_lack(firsts, begins):
        return None
    return _find_before(metastore, info, state, begins)


def _may_lack(firsts: Sequence[int], begins: Sequence[int]) -> bool:
    """Whether records of that time may have come before the first retained one. Pure."""
    return any(0 < first == begin for first, begin in zip(firsts, begins, strict=False))


def _find_before(metastore: Metastore, info: LogInfo, state: PublishState, begins: Sequence[int]) -> LoggedBefore:
    """Finds it by bisection over the snapshots whose ends are known."""
    if not _reaches(state.offsets, begins):
        return LoggedBefore(state.snapshot_id, None)
    # The end of `high` is after one of the beginnings; those of `before`, and of what is known up to `low`, are not.
    before, low, high = info.starts_after, info.starts_after, state.snapshot_id
    while high - low > 1:
        middle = (low + high) // 2
        known = metastore.find_log_offsets(info.table_uuid, until=middle)
        if known is None or known.snapshot_id <= before:
            # A publisher that died may not have reported it, so it may be later.
            low = middle
        elif _reaches(known.offsets, begins):
            high = known.snapshot_id
        else:
            before, low = known.snapshot_id, middle
    return LoggedBefore(before, high)


def _reaches(ends: Sequence[int], begins: Sequence[int]) -> bool:
    """Whether a snapshot that ends there, or one before it, has a record after one of the beginnings. Pure."""
    return any(end > begin for end, begin in zip(ends, begins, strict=False))
