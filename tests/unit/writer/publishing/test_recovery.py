"""Where publishing goes on after a fresh start, and when it must not (reliability R2, R3, R10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.errors import HistoryDiverged
from lakelog.format.log.state import LogInfo, PublishState
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.format.tables.table import TableName
from lakelog.log.records import LogPosition, LogSnapshot, TailRecord, TopicState
from writer.publishing.recovery import RecoveryFacts, find_resume

_TABLE = "0" * 32


class _History:
    """Snapshots `first` to `last`, each with the uuid `u<id>`."""

    def __init__(self, last: int, *, first: int = 1, prefix: str = "u") -> None:
        self._ids = range(first, last + 1)
        self._prefix = prefix

    def find(self, snapshot_id: int) -> Snapshot | None:
        if snapshot_id not in self._ids:
            return None
        return Snapshot(
            snapshot_id, f"{self._prefix}{snapshot_id}", "", SnapshotKind.APPEND, 1, 0, None, 0, 0, 0, 0, 0, 0, "w", 0
        )


_INFO = LogInfo(_TABLE, TableName("shop", "orders"), "orders-log", "topic-1", 1, 0, is_named=False)
_TOPIC = TopicState("orders-log", "topic-1", 2, 1)
_NEVER = PublishState(_TABLE, 1, 0, "", 0, "", (), 9, 0)


def _mirror(snapshot_id: int, *offsets: int, next_index: int = 0) -> PublishState:
    next_uuid = f"u{snapshot_id + 1}" if next_index else ""
    return PublishState(_TABLE, 1, snapshot_id, f"u{snapshot_id}", next_index, next_uuid, offsets, 9, 1)


def _at(snapshot_id: int, next_index: int | None = None) -> LogPosition:
    return LogPosition(snapshot_id, f"u{snapshot_id}", next_index)


def _last(partition: int, snapshot_id: int, next_index: int, offset: int = 15) -> TailRecord:
    return TailRecord(partition, offset, LogSnapshot(snapshot_id, f"u{snapshot_id}"), next_index)


def _know(
    position: LogPosition | None,
    mirror: PublishState,
    *tail: TailRecord,
    topic: TopicState | None = _TOPIC,
    starts: tuple[int, ...] = (0, 0),
    ends: tuple[int, ...] = (20, 20),
) -> RecoveryFacts:
    return RecoveryFacts(position, mirror, topic, starts, ends, tail)


@pytest.mark.parametrize(
    ("known", "resume"),
    [
        pytest.param(_know(None, _NEVER, ends=(0, 0)), LogPosition(0, ""), id="nothing was ever published"),
        pytest.param(_know(None, _NEVER), LogPosition(0, ""), id="died in its first transaction, which was aborted"),
        pytest.param(_know(None, _NEVER, TailRecord(0, 19, None)), LogPosition(0, ""), id="sent before their commits"),
        pytest.param(_know(_at(3), _mirror(3, 10, 9), _last(0, 3, 7)), _at(3), id="all agree"),
        pytest.param(_know(_at(4), _mirror(3, 10, 9), _last(0, 4, 7)), _at(4), id="died before it told the metastore"),
        pytest.param(_know(_at(4, 50), _mirror(3, 10, 9), _last(1, 4, 50)), _at(4, 50), id="died between two chunks"),
        pytest.param(_know(_at(4, 50), _mirror(3, 9, 9, next_index=30)), _at(4, 50), id="a chunk was not told"),
        pytest.param(_know(_at(3), _NEVER, _last(0, 3, 7)), _at(3), id="the metastore was never told"),
        pytest.param(_know(None, _mirror(3, 10, 9), _last(0, 3, 7)), _at(3), id="position forgotten"),
        pytest.param(
            _know(None, _mirror(3, 10, 9, next_index=30), _last(0, 4, 30)), _at(4, 30), id="forgotten in the middle"
        ),
        pytest.param(
            _know(None, _mirror(3, 10, 9), _last(0, 3, 7), _last(1, 5, 8)), _at(5, 8), id="forgotten, and never told"
        ),
        pytest.param(
            _know(None, _NEVER, _last(0, 3, 7), _last(1, 4, 2)), _at(4, 2), id="only the records are left (R3)"
        ),
        pytest.param(
            _know(None, _mirror(3, 10, 9), starts=(11, 10), ends=(11, 10)), _at(3), id="idle until all was deleted"
        ),
    ],
)
def test_goes_on_after_what_is_published(known: RecoveryFacts, resume: LogPosition) -> None:
    assert find_resume(_INFO, known, _History(9)) == resume


@pytest.mark.parametrize(
    ("known", "what"),
    [
        pytest.param(_know(_at(3), _mirror(3, 10, 9), topic=None), "does not exist", id="topic dropped"),
        pytest.param(
            _know(_at(3), _mirror(3, 10, 9), topic=replace(_TOPIC, topic_id="topic-2")), "made anew", id="topic anew"
        ),
        pytest.param(_know(_at(3), _mirror(3, 21, 9)), "ends at offset 20", id="topic cut (R10)"),
        pytest.param(_know(_at(3), _mirror(3, 9, 9, 1)), "ends at offset 0", id="topic with fewer partitions"),
        pytest.param(_know(_at(3), _mirror(4, 10, 9)), "lost what was committed", id="position behind the mirror"),
        pytest.param(
            _know(_at(4, 20), _mirror(3, 10, 9, next_index=30)), "lost what was committed", id="a chunk behind it"
        ),
        pytest.param(_know(_at(3), _mirror(3, 10, 9), _last(0, 4, 1)), "set back", id="records behind the position"),
        pytest.param(_know(_at(4, 20), _mirror(3, 9, 9), _last(0, 4, 30)), "set back", id="rows behind the position"),
        pytest.param(_know(_at(12), _mirror(3, 10, 9)), "not in the table's history", id="metastore restored"),
        pytest.param(
            _know(LogPosition(4, "other"), _mirror(3, 10, 9)), "others have committed", id="restored, then committed"
        ),
        pytest.param(
            _know(None, _mirror(3, 10, 9), TailRecord(0, 15, LogSnapshot(4, "other"), 1)),
            "others have committed",
            id="forgotten, restored, then committed",
        ),
        pytest.param(
            _know(None, _mirror(3, 10, 9), TailRecord(0, 15, LogSnapshot(3, "other"), 1)),
            "others have committed",
            id="forgotten, and another's record stands behind what was told",
        ),
        pytest.param(
            _know(None, _NEVER, starts=(20, 0), ends=(20, 0)), "it is unknown how far", id="nothing is left to tell"
        ),
        pytest.param(
            _know(None, _mirror(3, 10, 9), starts=(12, 9), ends=(12, 9)), "nothing is kept", id="forgotten and deleted"
        ),
        pytest.param(
            _know(_at(3), replace(_mirror(3, 10, 9), generation=2)), "generation", id="begun again in between"
        ),
    ],
)
def test_stops_where_log_and_table_do_not_fit(known: RecoveryFacts, what: str) -> None:
    with pytest.raises(HistoryDiverged, match=what) as caught:
        find_resume(_INFO, known, _History(9))
    assert "lakelog log restart shop.orders" in caught.value.message
    set_back = what in ("not in the table's history", "others have committed")
    assert caught.value.reason == ("LOG_AHEAD" if set_back else "LOG_DIVERGED")


def test_a_named_topic_may_hold_records_of_others() -> None:
    foreign = TailRecord(0, 9, None)
    named = replace(_INFO, is_named=True)
    assert find_resume(named, _know(None, _NEVER, foreign), _History(9)) == LogPosition(0, "")


@pytest.mark.parametrize("info", [replace(_INFO, is_named=True), replace(_INFO, generation=2)], ids=["named", "again"])
def test_records_that_are_not_kept_any_more_may_be_of_before(info: LogInfo) -> None:
    known = _know(None, replace(_NEVER, generation=info.generation), starts=(20, 0), ends=(20, 0))
    assert find_resume(info, known, _History(9)) == LogPosition(0, "")


def test_a_topic_whose_id_was_never_known_is_taken_as_it_is() -> None:
    known = _know(_at(3), _mirror(3, 10, 9))
    assert find_resume(replace(_INFO, topic_id=""), known, _History(9)) == _at(3)


@pytest.mark.parametrize("snapshot_id", [1, 9, 30])
def test_records_from_before_a_log_began_say_nothing_of_it(snapshot_id: int) -> None:
    # Of a table that had the topic before, or of a history that was set back before the log was begun again.
    named = replace(_INFO, is_named=True)
    began = replace(_NEVER, offsets=(10, 9))
    foreign = TailRecord(0, 8, LogSnapshot(snapshot_id, "other"), 1)
    assert find_resume(named, _know(None, began, foreign), _History(9)) == LogPosition(0, "")
    assert find_resume(named, _know(_at(3), began, foreign, _last(1, 3, 7)), _History(9)) == _at(3)
    assert find_resume(named, _know(_at(3), _mirror(3, 10, 14), foreign), _History(9)) == _at(3)
    for offset, snapshot in ((10, foreign.snapshot), (8, LogSnapshot(4, "u4"))):
        # Behind where it began; and of this very table, however it came to stand there.
        ours = replace(foreign, offset=offset, snapshot=snapshot)
        with pytest.raises(HistoryDiverged, match="was set back"):
            find_resume(named, _know(_at(3), began, ours), _History(9))


def test_a_log_restarted_passes_over_the_records_before_it() -> None:
    again = replace(_INFO, generation=2, starts_after=6)
    mirror = PublishState(_TABLE, 2, 6, "u6", 0, "", (), 9, 0)
    assert find_resume(again, _know(None, mirror, _last(0, 4, 7)), _History(9)) == _at(6)


def test_snapshots_that_were_published_long_ago_may_have_expired() -> None:
    known = _know(_at(8), _mirror(8, 10, 9), _last(0, 2, 7), _last(1, 8, 3))
    assert find_resume(_INFO, known, _History(9, first=8)) == _at(8)
