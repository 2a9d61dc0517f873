"""Compares a table's log, as any consumer reads it, with the table's own history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lakelog.client.connection.retry import BROKERS_UNAVAILABLE
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import HistoryDiverged, NotFound, Unavailable
from lakelog.format.log.state import LogInfo
from lakelog.log.columns import NO_RECORDS, take_fetched
from lakelog.log.protocol import Log, LogReader
from lakelog.log.records import FetchedRecords
from lakelog.log.settings import read_log_settings
from lakelog.log.tally import LogFindings, LogTally
from lakelog.log.topic_rules import CLEANUP_POLICY
from lakelog.log.uncommitted_tally import split_uncommitted
from lakelog.progress.tracking import track
from lakelog.sdk.maintenance.logged_rows import load_rows
from lakelog.sdk.maintenance.uncommitted_verification import add_uncommitted, find_sent, make_uncommitted_tally
from lakelog.storage.objects.store import ObjectStore

_RECORDS_A_FETCH: Final = 10_000
_FETCH_S: Final = 0.5
_STALL_S: Final = 30.0
"""If brokers deliver nothing for this long although there is more, they count as unavailable."""


def verify_log(
    metastore: Metastore,
    info: LogInfo,
    log: Log,
    store: ObjectStore,
    clock: Clock,
    *,
    progress: Callable[[int, int], None] = lambda read, of: None,
) -> LogFindings:
    """Reads all records that a log retains, and compares them with the table's snapshots.

    Blocks for as long as that takes: some 100,000 records a second. Publishing and writing can go on meanwhile. It
    holds a few bytes of memory for each row.

    Args:
        metastore: Knows the table.
        info: The log.
        log: Its brokers.
        store: Has the table's files: row kinds are read if not all rows are inserts.
        clock: For measuring.
        progress: Called with the number of offsets read and their total.

    Raises:
        NotFound: The table or the topic no longer exists.
        HistoryDiverged: The topic is not the one in which the log began.
        Unavailable: The brokers cannot be reached.
    """
    table = metastore.get_table_by_uuid(info.table_uuid)
    settings = read_log_settings(table.options, has_primary_key=bool(table.schema.primary_key))
    if settings is None:
        raise NotFound(f"Table {info.name} has no log.", reason="LOG_NOT_FOUND", metadata={"table": str(info.name)})
    # In this order: all that is published up to here is in the log, and all that is in the log has a snapshot.
    state = metastore.get_publish_state(info.table_uuid)
    is_compacted = _check_topic(log, info)
    reader = log.open_reader(info.topic)
    try:
        starts, ends = reader.list_offsets(earliest=True), reader.list_offsets()
        page = metastore.list_snapshots(info.table_uuid, limit=1, newest=True)
        after = max(info.starts_after, page.earliest_change_id - 1)
        # If records are not in commit order, the last record of a key may differ from the table's row.
        keeps_last = is_compacted and not settings.is_eventual
        snapshots = load_rows(metastore, info, store, after, page.latest_snapshot_id, keeps_last=keeps_last)
        is_shared = info.is_named or info.generation > 1
        sent = find_sent(metastore, info.table_uuid, snapshots) if settings.is_eventual else {}
        elsewhere = frozenset(each.snapshot_id for each in sent.values() if each.is_all)
        tally = LogTally(snapshots, after, state.snapshot_id, starts, is_compacted, is_shared, elsewhere)
        uncommitted = make_uncommitted_tally(snapshots, sent, starts, is_compacted=is_compacted)

        def take(records: FetchedRecords) -> None:
            mine, others = split_uncommitted(records) if settings.is_eventual else (NO_RECORDS, records)
            uncommitted.add(mine)
            tally.add(others)

        with track(f"reading the log of {info.name}", "records") as work:

            def note(read: int, of: int) -> None:
                work.reach(read, of)
                progress(read, of)

            _read(reader, starts, ends, take, clock, note)
    finally:
        reader.close()
    found = tally.finish()
    if not settings.is_eventual:
        return found
    return add_uncommitted(metastore, info.table_uuid, found, uncommitted.finish(state.snapshot_id))


def _check_topic(log: Log, info: LogInfo) -> bool:
    """Whether the topic is compacted."""
    admin = log.open_admin()
    try:
        topic = admin.find_topic(info.topic)
    finally:
        admin.close()
    if topic is None:
        raise NotFound(
            f"The topic {info.topic} of {info.name} is gone. Restart the log: lakelog log restart {info.name}.",
            reason="TOPIC_NOT_FOUND",
            metadata={"topic": info.topic, "table": str(info.name)},
        )
    if info.topic_id and topic.topic_id != info.topic_id:
        raise HistoryDiverged(
            f"The topic {info.topic} was deleted and made again since the log of {info.name} began in it. Restart the "
            f"log: lakelog log restart {info.name}.",
            reason="TOPIC_MADE_ANEW",
            metadata={"topic": info.topic, "table": str(info.name)},
        )
    return "compact" in topic.settings.get(CLEANUP_POLICY, "")


def _read(
    reader: LogReader,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    take: Callable[[FetchedRecords], None],
    clock: Clock,
    progress: Callable[[int, int], None],
) -> None:
    reader.assign(dict(enumerate(starts)))
    bounds = np.array(ends, np.int64)
    of = sum(ends) - sum(starts)
    read, since = -1, clock.monotonic_s()
    while True:
        positions = reader.positions()
        before, read = read, sum(min(positions[place], end) - starts[place] for place, end in enumerate(ends))
        progress(read, of)
        if read >= of:
            return
        if read > before:
            since = clock.monotonic_s()
        elif clock.monotonic_s() - since > _STALL_S:
            raise Unavailable(
                f"The brokers have returned nothing for {_STALL_S:g} s, though {of - read} offsets are left. Look "
                "after them, then try again.",
                reason=BROKERS_UNAVAILABLE,
            )
        records = reader.fetch(_RECORDS_A_FETCH, _FETCH_S)
        if len(records):
            # Records that arrived since belong to snapshots that were committed since.
            take(take_fetched(records, records.offsets < bounds[records.partitions]))
