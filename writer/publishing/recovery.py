"""Where publishing continues after a restart (reliability R2, R3, R10). Pure.

Three sources say how far the log has come, and they cannot agree on everything:

- The **position** in the log's own offsets moves in the same transaction as the records, so if it exists, it is the
  truth. Brokers forget it when nothing was published for long.
- The **mirror** in the metastore is written after each transaction, so it is never ahead of the log. Snapshots that
  bring nothing to the log, such as compactions, move the position too, in a transaction without records.
- The **tail**, the headers of each partition's last record, is what readers have seen.

Rules:

1. Every named snapshot must be one of the table's history, by id and uuid; otherwise table or log was set back.
2. The mirror is not ahead of the position; otherwise the log has lost committed records.
3. No record comes after the position from which publishing continues; otherwise another program has written, or the
   position was set back.
4. The topic is the same one, and ends nowhere before the offsets of the mirror; otherwise it was cut or made again.
5. If the position is forgotten, the mirror replaces it, provided that no record comes after it, and that none that may
   have been there was deleted since; otherwise the tail replaces it.
6. If nothing is known and nothing was ever published, publishing begins. In all other cases it stops with an error: a
   position is never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lakelog.errors import HistoryDiverged
from lakelog.format.log.state import LOG_AHEAD, LOG_DIVERGED, RESTART_COMMAND, LogInfo, PublishState
from lakelog.format.tables.snapshot import Snapshot
from lakelog.log.records import LogPosition, LogSnapshot, TailRecord, TopicState

_REMEDY: Final = (
    "Find out what happened to the topic or to the metastore's database. Then either restore the lost state, or "
    f"restart the log after the table's newest snapshot with `{RESTART_COMMAND} {{name}}`; every consumer of the log "
    "must then read the whole table once."
)


class History(Protocol):
    """The table's snapshots, as the metastore has them."""

    def find(self, snapshot_id: int) -> Snapshot | None:
        """A snapshot; None: it is not retained, or there never was one."""
        ...


@dataclass(frozen=True)
class RecoveryFacts:
    """The facts after a restart, requested in this order.

    Args:
        position: The log's own; None: forgotten, or there was none.
        mirror: The metastore's.
        topic: Its present state; None: there is none.
        starts: The first retained offset of each partition.
        ends: The end of each partition.
        tail: The last record of each partition that has one.
    """

    position: LogPosition | None
    mirror: PublishState
    topic: TopicState | None
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    tail: Sequence[TailRecord] = field(default=())


def find_resume(info: LogInfo, known: RecoveryFacts, history: History) -> LogPosition:
    """Where publishing continues.

    Args:
        info: The log.
        known: The facts.
        history: The table's history.

    Returns:
        The published position: the next row to publish is the one after it.

    Raises:
        HistoryDiverged: The log and the table do not belong together any more; reason `LOG_AHEAD` if the table has lost
            snapshots that the log has, else `LOG_DIVERGED`. The message says what was found and what to do.
    """
    if known.mirror.generation != info.generation:
        raise diverged(info, f"The log has generation {info.generation} and its state {known.mirror.generation}.")
    _check_topic(info, known)
    tail = []
    for record in known.tail:
        if not _is_ours(info, record):
            continue
        # Snapshots published long ago may have expired; a lease retains those after the mirror.
        if _id_of(record) >= max(known.mirror.snapshot_id, 1):
            if _stands_before(known.mirror, record):
                if not _is_of(history, record.snapshot):
                    continue
            else:
                _check_known(info, history, record.snapshot, f"the last record of partition {record.partition}")
        tail.append(record)
    if known.position is None:
        return _without_position(info, known, tail, history)
    return _with_position(info, known.position, known.mirror, tail, history)


def _with_position(
    info: LogInfo, position: LogPosition, mirror: PublishState, tail: Sequence[TailRecord], history: History
) -> LogPosition:
    if _end_of(position) < (mirror.snapshot_id + 1, mirror.next_index):
        raise diverged(
            info,
            f"The metastore knows that the log holds {_show_mirror(mirror)}, but the log's own position is "
            f"{_show(position)}: the log has lost what was committed to it, or the position was set back.",
        )
    _check_known(info, history, LogSnapshot(position.snapshot_id, position.snapshot_uuid), "the log's position")
    newest = max(tail, key=_order_of, default=None)
    if newest is not None and _order_of(newest) > _end_of(position):
        raise diverged(
            info,
            f"Partition {newest.partition} holds a record of snapshot {_id_of(newest)} behind the position "
            f"{_show(position)}: the position was set back, or another program has written to the topic.",
        )
    return position


def check_same_topic(info: LogInfo, topic: TopicState | None) -> TopicState:
    """The topic, if it is the one in which a log began.

    Raises:
        HistoryDiverged: It is gone, or was made again.
    """
    if topic is None:
        raise topic_gone(info)
    if info.topic_id and topic.topic_id != info.topic_id:
        raise diverged(
            info, f"The topic {info.topic} was made anew: its id was {info.topic_id} and is {topic.topic_id}."
        )
    return topic


def _check_topic(info: LogInfo, known: RecoveryFacts) -> None:
    mirror = known.mirror
    check_same_topic(info, known.topic)
    for partition, offset in enumerate(mirror.offsets):
        end = known.ends[partition] if partition < len(known.ends) else 0
        if end < offset:
            raise diverged(
                info,
                f"Partition {partition} of the topic {info.topic} ends at offset {end}, but was published up to "
                f"{offset}: the topic was cut or made anew.",
            )


def _without_position(info: LogInfo, known: RecoveryFacts, tail: Sequence[TailRecord], history: History) -> LogPosition:
    mirror = known.mirror
    beyond = [record for record in tail if _order_of(record) > (mirror.snapshot_id + 1, mirror.next_index)]
    if not beyond:
        never_reported = not mirror.reported_at_ms
        # Records that no reader ever saw, as those of an aborted first transaction, are still at their offsets.
        if never_reported and not info.is_named and info.generation == 1 and not known.tail and any(known.starts):
            raise diverged(
                info, "The topic has had records, but none of them is left, so it is unknown how far it was published."
            )
        _check_retained(info, known)
        return _to_position(info, mirror, history)
    newest = max(beyond, key=_order_of)
    assert newest.snapshot is not None, "records without a snapshot are not ours"
    # The order is a function of the files and transactions are atomic: all before the last record is published.
    return LogPosition(newest.snapshot.snapshot_id, newest.snapshot.snapshot_uuid, newest.next_index)


def _check_retained(info: LogInfo, known: RecoveryFacts) -> None:
    """Raises an error if records after the mirror may have been published and deleted since."""
    for partition, offset in enumerate(known.mirror.offsets):
        start = known.starts[partition] if partition < len(known.starts) else 0
        # After the last record comes the marker that ends its transaction.
        if start > offset + 1:
            raise diverged(
                info,
                f"The log's own position was forgotten, and of partition {partition} nothing is kept before offset "
                f"{start}, though the metastore knows of what was published before {offset} only.",
            )


def _to_position(info: LogInfo, mirror: PublishState, history: History) -> LogPosition:
    if mirror.snapshot_id:
        _check_known(
            info, history, LogSnapshot(mirror.snapshot_id, mirror.snapshot_uuid), "the metastore's state of it"
        )
    if mirror.next_index:
        started = LogSnapshot(mirror.snapshot_id + 1, mirror.next_uuid)
        _check_known(info, history, started, "the metastore's state of it")
        return LogPosition(started.snapshot_id, started.snapshot_uuid, mirror.next_index)
    return LogPosition(mirror.snapshot_id, mirror.snapshot_uuid)


def _check_known(info: LogInfo, history: History, snapshot: LogSnapshot | None, who: str) -> None:
    """Raises an error if a snapshot is not one of the table's history."""
    if snapshot is None or not snapshot.snapshot_id:
        return
    kept = history.find(snapshot.snapshot_id)
    if kept is None:
        raise diverged(
            info,
            f"Snapshot {snapshot.snapshot_id}, which {who} names, is not in the table's history: "
            "the metastore's database was set back to an older state.",
            reason=LOG_AHEAD,
        )
    if snapshot.snapshot_uuid and kept.snapshot_uuid != snapshot.snapshot_uuid:
        raise diverged(
            info,
            f"Snapshot {snapshot.snapshot_id} is another one ({kept.snapshot_uuid}) than {who} names "
            f"({snapshot.snapshot_uuid}): the metastore's database was set back, and others have committed since.",
            reason=LOG_AHEAD,
        )


def _is_ours(info: LogInfo, record: TailRecord) -> bool:
    """Whether a record is of this generation of the log; a named topic may hold earlier records of others."""
    return record.snapshot is not None and record.snapshot.snapshot_id > info.starts_after


def _stands_before(mirror: PublishState, record: TailRecord) -> bool:
    """Whether a record comes before all that is not yet reported to the mirror.

    The mirror begins with the topic's end when this generation began. Earlier records of snapshots that the table does
    not have belong to another table, or to a history that was set back before the log was restarted.
    """
    return record.partition < len(mirror.offsets) and record.offset < mirror.offsets[record.partition]


def _is_of(history: History, snapshot: LogSnapshot | None) -> bool:
    kept = None if snapshot is None else history.find(snapshot.snapshot_id)
    return kept is not None and snapshot is not None and kept.snapshot_uuid == snapshot.snapshot_uuid


def _id_of(record: TailRecord) -> int:
    return record.snapshot.snapshot_id if record.snapshot else 0


def _order_of(record: TailRecord) -> tuple[int, int]:
    """Where a record ends in the table's history: its snapshot, and the row after it."""
    return _id_of(record), record.next_index


def _end_of(position: LogPosition) -> tuple[int, int]:
    """Where a position ends: its own snapshot or the next one, and the next row of it."""
    if position.next_index is None:
        return position.snapshot_id + 1, 0
    return position.snapshot_id, position.next_index


def _show_mirror(mirror: PublishState) -> str:
    rows = f" and {mirror.next_index} rows of the next one" if mirror.next_index else ""
    return f"all up to snapshot {mirror.snapshot_id}{rows}"


def _show(position: LogPosition) -> str:
    rows = "" if position.next_index is None else f" up to row {position.next_index}"
    return f"snapshot {position.snapshot_id}{rows}"


def topic_gone(info: LogInfo) -> HistoryDiverged:
    """The error for a log whose topic does not exist."""
    return diverged(info, f"The topic {info.topic} does not exist any more.")


def diverged(info: LogInfo, what: str, *, reason: str = LOG_DIVERGED) -> HistoryDiverged:
    """The error for a log that does not belong to its table any more, with what a person is to do."""
    return HistoryDiverged(
        f"The log of {info.name} is not published: {what} {_REMEDY.format(name=info.name)}",
        reason=reason,
        metadata={"table": str(info.name), "topic": info.topic},
    )
