"""How far logs are published: what publishers tell, who may, and what expiry keeps for them (reliability R3, R8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced, HistoryDiverged, InvalidArgument, NotFound, SnapshotExpired
from lakelog.format.commit.facts import AttemptState
from lakelog.format.commit.rebase import Rebased
from lakelog.format.log.state import PublishReport, SnapshotOffsets, to_publisher_lease
from lakelog.format.retention.expiry import SnapshotLease, SnapshotLeaseKind
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.logs import publishing
from metastore.retention import snapshot_leases
from tests.contract.metastore.expiring import file_ids
from tests.contract.metastore.log_tables import commit_segments, make_log_table, plan_names
from tests.support.metastore.making import append, make_table, rewrite, snapshot_ids

UNKNOWN = "f" * 32


class Reporter:
    """The publisher of a table, as far as the metastore knows of it."""

    def __init__(self, metastore: Metastore, table: TableInfo, holder: str = "p1") -> None:
        self.metastore, self.table = metastore, table
        grant = metastore.acquire_lease(to_publisher_lease(table.table_uuid), holder, 60_000)
        assert grant.acquired
        self.epoch = grant.epoch

    def ends(self, snapshot_id: int, *ends: int) -> SnapshotOffsets:
        page = self.metastore.list_snapshots(self.table.table_uuid, after=snapshot_id - 1, limit=1)
        return SnapshotOffsets(snapshot_id, page.snapshots[0].snapshot_uuid, ends or (snapshot_id,) * 4)

    def report(self, *snapshots: SnapshotOffsets, generation: int = 1, next_index: int = 0, problem: str = "") -> None:
        last = (
            snapshots[-1].snapshot_id
            if snapshots
            else self.metastore.get_publish_state(self.table.table_uuid).snapshot_id
        )
        next_uuid = self.ends(last + 1).snapshot_uuid if next_index else ""
        self.metastore.report_published(
            PublishReport(self.table.table_uuid, generation, self.epoch, snapshots, next_index, next_uuid, problem)
        )

    def publish(self, *snapshot_ids: int) -> None:
        self.report(*[self.ends(each) for each in snapshot_ids])


@pytest.fixture
def table(metastore: Metastore) -> TableInfo:
    made = make_log_table(metastore)
    for identifier in range(1, 6):
        append(metastore, made, identifier)
    return made


def test_the_baseline_is_known(metastore: Metastore, table: TableInfo) -> None:
    uuid = table.table_uuid
    state = metastore.get_publish_state(uuid)
    assert (state.table_uuid, state.generation, state.snapshot_id, state.snapshot_uuid) == (uuid, 1, 0, "")
    assert (state.offsets, state.latest_snapshot_id, state.reported_at_ms, state.holder) == ((), 5, 0, "")
    assert metastore.find_log_offsets(uuid) is None
    assert metastore.list_log_offsets(uuid) == []
    publisher = Reporter(metastore, table)
    first, second = publisher.ends(1, 3, 0, 0, 9), publisher.ends(2, 4, 2, 0, 9)
    publisher.report(first, second, next_index=7, problem="slow")
    state = metastore.get_publish_state(uuid)
    assert (state.snapshot_id, state.snapshot_uuid, state.offsets) == (2, second.snapshot_uuid, second.offsets)
    assert (state.next_index, state.next_uuid) == (7, publisher.ends(3).snapshot_uuid)
    assert (state.holder, state.problem) == ("p1", "slow")
    assert state.reported_at_ms > 0
    assert metastore.find_log_offsets(uuid) == second
    assert metastore.find_log_offsets(uuid, until=1) == first
    assert metastore.list_log_offsets(uuid) == [first, second]
    assert metastore.list_log_offsets(uuid, after=1, until=4) == [second]
    assert metastore.list_log_offsets(uuid, limit=1) == [first]
    # All is done with the third, and one that touches nothing goes where the one before it ends.
    publisher.report(publisher.ends(3, 2**40, 2, 0, 9), publisher.ends(4, 0, 0, 0, 0))
    state = metastore.get_publish_state(uuid)
    assert (state.snapshot_id, state.next_index, state.next_uuid, state.problem) == (4, 0, "", "")
    assert (state.problem_reason, state.needs_restart) == ("", False)
    assert state.offsets == (2**40, 2, 0, 9)


def test_a_repeated_report_changes_nothing(metastore: Metastore, table: TableInfo) -> None:
    publisher = Reporter(metastore, table)
    publisher.publish(1, 2)
    publisher.report(next_index=5)
    before = metastore.get_publish_state(table.table_uuid)
    publisher.report(publisher.ends(1, 9, 9, 9, 9), publisher.ends(2, 9, 9, 9, 9))
    after = metastore.get_publish_state(table.table_uuid)
    assert replace(after, reported_at_ms=0) == replace(before, reported_at_ms=0)


def test_the_first_report_says_since_when_a_snapshot_is_visible(metastore: Metastore, table: TableInfo) -> None:
    publisher = Reporter(metastore, table)
    report = PublishReport(table.table_uuid, 1, publisher.epoch, (publisher.ends(1), publisher.ends(2)))
    metastore.report_published(replace(report, visible_now=True))
    # An older publisher, and one that finds snapshots published, do not say when it was.
    metastore.report_published(replace(report, snapshots=(publisher.ends(3),)))
    before = metastore.list_log_offsets(table.table_uuid)
    first, second, third = (each.visible_at_ms for each in before)
    committed = [each.committed_at_ms for each in metastore.list_snapshots(table.table_uuid).snapshots]
    assert first >= committed[1] > 0
    assert second >= first
    assert third == 0
    everything = tuple(replace(publisher.ends(each), visible_at_ms=7) for each in (1, 2, 3, 4))
    metastore.report_published(replace(report, snapshots=everything, visible_now=True))
    after = metastore.list_log_offsets(table.table_uuid)
    assert [each.visible_at_ms for each in after[:3]] == [first, second, third], "a repeated report tells no other time"
    assert after[3].visible_at_ms >= first
    newest = metastore.find_log_offsets(table.table_uuid)
    assert newest is not None
    assert newest.visible_at_ms == after[3].visible_at_ms


def test_only_the_holder_of_the_lease_reports(metastore: Metastore, table: TableInfo) -> None:
    zombie = Reporter(metastore, table)
    metastore.release_lease(to_publisher_lease(table.table_uuid), zombie.epoch)
    publisher = Reporter(metastore, table, "p2")
    publisher.publish(1)
    with pytest.raises(Fenced, match="'p2' holds it"):
        zombie.publish(1, 2)
    assert metastore.get_publish_state(table.table_uuid).snapshot_id == 1
    no_one = PublishReport(make_log_table(metastore).table_uuid, 1, 1)
    with pytest.raises(Fenced, match="no one holds it"):
        metastore.report_published(no_one)


def test_control_without_the_fence_a_zombie_is_believed(
    metastore: Metastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check_nothing(*_: object) -> None:
        """The check of the lease, left out."""

    monkeypatch.setattr(publishing, "_check_holder", check_nothing)
    zombie = Reporter(metastore, table)
    metastore.release_lease(to_publisher_lease(table.table_uuid), zombie.epoch)
    Reporter(metastore, table, "p2").publish(1)
    zombie.publish(1, 2)
    assert metastore.get_publish_state(table.table_uuid).snapshot_id == 2, "readers look for what nobody has sent"


def test_another_history_is_refused(metastore: Metastore, table: TableInfo) -> None:
    publisher = Reporter(metastore, table)
    for reported in (replace(publisher.ends(1), snapshot_uuid=UNKNOWN), SnapshotOffsets(6, UNKNOWN, (1,))):
        with pytest.raises(HistoryDiverged, match="restored to an earlier state") as refused:
            publisher.report(reported)
        assert refused.value.reason == "SNAPSHOT_UNKNOWN"
    with pytest.raises(HistoryDiverged, match="has generation 1, the report is of 2"):
        publisher.report(publisher.ends(1), generation=2)
    assert metastore.get_publish_state(table.table_uuid).snapshot_id == 0


def test_a_log_that_restarts_is_published_from_there(metastore: Metastore, table: TableInfo) -> None:
    publisher = Reporter(metastore, table)
    publisher.publish(1, 2)
    begun = metastore.restart_log(table.table_uuid)
    assert (begun.generation, begun.starts_after) == (2, 5)
    state = metastore.get_publish_state(table.table_uuid)
    assert (state.generation, state.snapshot_id, state.snapshot_uuid) == (2, 5, publisher.ends(5).snapshot_uuid)
    assert (state.offsets, state.reported_at_ms) == ((), 0)
    assert metastore.find_log_offsets(table.table_uuid) is None
    with pytest.raises(HistoryDiverged, match="was restarted"):
        publisher.publish(3)
    append(metastore, table, 6)
    publisher.report(publisher.ends(6, 1, 1, 1, 1), generation=2)
    assert metastore.list_log_offsets(table.table_uuid) == [publisher.ends(6, 1, 1, 1, 1)]


def test_where_a_generation_begins_is_reported_until_it_is_published(metastore: Metastore, table: TableInfo) -> None:
    publisher, uuid = Reporter(metastore, table), table.table_uuid
    publisher.publish(1, 2)
    metastore.restart_log(uuid)
    nothing = PublishReport(uuid, 2, publisher.epoch)
    for reported, known in (((3, 0, 0, 0), (3, 0, 0, 0)), ((2, 4, 0, 0, 1), (3, 4, 0, 0, 1)), ((), (3, 4, 0, 0, 1))):
        metastore.report_published(replace(nothing, begins=reported, problem="slow", problem_reason="LOG_AHEAD"))
        stuck = metastore.get_publish_state(nothing.table_uuid)
        assert (stuck.problem_reason, stuck.is_ahead, stuck.needs_restart) == ("LOG_AHEAD", True, True)
        begins = SnapshotOffsets(5, publisher.ends(5).snapshot_uuid, known)
        assert metastore.find_log_offsets(uuid, until=5) == begins
        assert metastore.get_publish_state(uuid).offsets == known
    append(metastore, table, 6)
    # With it what was found to be published of the generation; of no partition does it end before it began.
    first = PublishReport(uuid, 2, publisher.epoch, (publisher.ends(6, 9, 0, 2, 0),), begins=(4, 4, 0, 0, 1))
    for _ in range(2):
        metastore.report_published(first)
        assert metastore.get_publish_state(uuid).offsets == (9, 4, 2, 0, 1)
    assert metastore.list_log_offsets(uuid, until=5) == [replace(begins, offsets=(4, 4, 0, 0, 1))]
    with pytest.raises(HistoryDiverged, match=r"begins at the offsets \[4, 4, 0, 0, 1\] .* said to begin at \[5\]"):
        metastore.report_published(replace(first, begins=(5,)))
    assert metastore.get_publish_state(uuid).offsets == (9, 4, 2, 0, 1)


def test_where_a_generation_begins_is_not_reported_after_a_part_of_it(metastore: Metastore, table: TableInfo) -> None:
    publisher = Reporter(metastore, table)
    publisher.report(next_index=3)
    with pytest.raises(HistoryDiverged, match="said to begin at"):
        metastore.report_published(PublishReport(table.table_uuid, 1, publisher.epoch, begins=(1, 0, 0, 0)))
    # At the topic's own beginning it does.
    metastore.report_published(PublishReport(table.table_uuid, 1, publisher.epoch, begins=(0, 0, 0, 0)))
    assert metastore.find_log_offsets(table.table_uuid) is None


def ids_with_ends(metastore: Metastore, table: TableInfo, **asked: int) -> list[tuple[int, int]]:
    return [(each.snapshot_id, each.offsets[0]) for each in metastore.list_log_offsets(table.table_uuid, **asked)]


@pytest.fixture
def quiet(metastore: Metastore) -> tuple[TableInfo, Reporter]:
    """Rows in the snapshots 1, 4 and 7 alone; 2, 3, 5, 6 and 8 bring nothing to the log; 1 and 4 are published."""
    table = make_log_table(metastore)
    for identifier in range(1, 9):
        if identifier in (1, 4, 7):
            commit_segments(metastore, table, identifier)
        else:
            live = file_ids(metastore, table)
            kind = SnapshotKind.OVERWRITE if identifier in (3, 6) else SnapshotKind.COMPACT
            rewrite(metastore, table, identifier, *live, kind=kind)
    publisher = Reporter(metastore, table)
    publisher.report(publisher.ends(1, 10), publisher.ends(4, 40))
    return table, publisher


def test_snapshots_that_bring_nothing_end_where_the_one_before_does(
    metastore: Metastore, quiet: tuple[TableInfo, Reporter]
) -> None:
    table, publisher = quiet
    known = [(1, 10), (2, 10), (3, 10), (4, 40), (5, 40), (6, 40)]
    assert ids_with_ends(metastore, table) == known, "8 is behind rows that are not published yet"
    for after in range(7):
        assert ids_with_ends(metastore, table, after=after) == known[after:]
        assert ids_with_ends(metastore, table, after=after, limit=1) == known[after:][:1]
        assert ids_with_ends(metastore, table, until=after + 1) == known[: after + 1]
    for each in metastore.list_log_offsets(table.table_uuid):
        assert each.snapshot_uuid == publisher.ends(each.snapshot_id).snapshot_uuid
    publisher.report(publisher.ends(5, 40), publisher.ends(6, 40), publisher.ends(7, 70))
    assert ids_with_ends(metastore, table) == [*known, (7, 70), (8, 70)]


def test_no_end_is_carried_over_rows_with_an_unknown_end(
    metastore: Metastore, quiet: tuple[TableInfo, Reporter], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, publisher = quiet
    # The publisher died between its transaction and the report of 7.
    commit_segments(metastore, table, 9)
    publisher.report(publisher.ends(9, 90))
    assert [each for each, _ in ids_with_ends(metastore, table)] == [1, 2, 3, 4, 5, 6, 9]
    # Pages of any size give the same.
    for size in (1, 2, 3):
        monkeypatch.setattr(publishing, "_PAGE", size)
        assert [each for each, _ in ids_with_ends(metastore, table)] == [1, 2, 3, 4, 5, 6, 9]
        assert ids_with_ends(metastore, table, after=5, limit=2) == [(6, 40), (9, 90)]


def test_control_without_carrying_over_only_reported_ends_are_known(
    metastore: Metastore, quiet: tuple[TableInfo, Reporter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "carry_over", lambda *_: [])
    assert ids_with_ends(metastore, quiet[0]) == [(1, 10), (4, 40)]


def test_nothing_before_a_log_has_an_end_in_it(metastore: Metastore, table: TableInfo) -> None:
    publisher = Reporter(metastore, table)
    publisher.publish(1, 2)
    metastore.restart_log(table.table_uuid)
    live = file_ids(metastore, table)
    rewrite(metastore, table, 6, *live)
    assert ids_with_ends(metastore, table) == []
    metastore.report_published(PublishReport(table.table_uuid, 2, publisher.epoch, begins=(3, 0, 0, 0)))
    assert ids_with_ends(metastore, table) == [(5, 3), (6, 3)]


def test_a_table_without_a_log_has_no_publisher(metastore: Metastore) -> None:
    plain = make_table(metastore)
    report = PublishReport(plain.table_uuid, 1, Reporter(metastore, plain).epoch)
    with pytest.raises(NotFound, match="has no log"):
        metastore.report_published(report)
    for ask in (metastore.get_publish_state, metastore.find_log_offsets, metastore.list_log_offsets):
        with pytest.raises(NotFound, match="has no log"):
            ask(plain.table_uuid)
        with pytest.raises(NotFound, match="does not exist"):
            ask("0" * 32)


def test_bad_reports_are_refused(metastore: Metastore, table: TableInfo) -> None:
    publisher = Reporter(metastore, table)
    good = PublishReport(table.table_uuid, 1, publisher.epoch, (publisher.ends(1),))
    for bad, message in (
        (replace(good, generation=0), "generation is 0"),
        (replace(good, epoch=0), "epoch is 0"),
        (replace(good, next_index=-1), "next_index is -1"),
        (replace(good, next_index=1), "if and only if next_index is above 0"),
        (replace(good, next_uuid=UNKNOWN), "if and only if next_index is above 0"),
        (replace(good, problem="x" * 4097), "Give 0 to 4096 characters"),
        (replace(good, problem_reason="x" * 65), "Give 0 to 64 characters"),
        (replace(good, snapshots=(publisher.ends(2), publisher.ends(1))), "in rising order"),
        (replace(good, snapshots=(replace(publisher.ends(1), offsets=()),)), "Give those of 1 to 65536"),
        (replace(good, snapshots=(replace(publisher.ends(1), offsets=(-1,)),)), "Offsets begin with 0"),
        (replace(good, begins=(0, -2)), "begins is -2. Offsets begin with 0"),
        (replace(good, begins=(1,) * 65_537), "Give those of 1 to 65536"),
        (replace(good, snapshots=(replace(publisher.ends(1), snapshot_uuid="x"),)), "hexadecimal"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            metastore.report_published(bad)


def test_what_was_sent_to_a_log_that_is_over_counts_as_not_sent(metastore: Metastore, table: TableInfo) -> None:
    commit_segments(metastore, table, 6, sent_offsets={0: 3})
    metastore.restart_log(table.table_uuid)
    commit_segments(metastore, table, 7, sent_offsets={0: 3})
    commit_segments(metastore, table, 8, sent_offsets={0: 3}, sent_generation=2)
    found = metastore.list_snapshots(table.table_uuid, after=5).snapshots
    assert [each.sent_offsets for each in found] == [{0: 3}, None, {0: 3}]


def test_control_what_was_sent_to_another_topic_counts(
    metastore: Metastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def believe(_: object, rebased: Rebased) -> Rebased:
        return rebased

    monkeypatch.setattr(publishing, "_resolve_sent", believe)
    metastore.restart_log(table.table_uuid)
    commit_segments(metastore, table, 6, sent_offsets={0: 3})
    (found,) = metastore.list_snapshots(table.table_uuid, after=5).snapshots
    assert found.sent_offsets == {0: 3}, "the publisher leaves out what the new topic does not have"


def test_what_has_become_of_attempts(metastore: Metastore, table: TableInfo) -> None:
    done = append(metastore, table, 6).attempt_id
    opened, given_up = (metastore.stage_attempt([table.table_uuid], "w").attempt_id for _ in range(2))
    metastore.abandon_attempt(given_up)
    found = metastore.find_attempts(table.table_uuid, [done, opened, given_up, UNKNOWN])
    assert {attempt: each.state for attempt, each in found.items()} == {
        done: AttemptState.COMMITTED,
        opened: AttemptState.OPEN,
        given_up: AttemptState.ABORTED,
        UNKNOWN: AttemptState.ABORTED,
    }
    newest = metastore.list_snapshots(table.table_uuid, after=5).snapshots[0]
    assert newest.attempt_id == done
    with pytest.raises(InvalidArgument, match="Give 1 to 1000 at once"):
        metastore.find_attempts(table.table_uuid, [])
    with pytest.raises(NotFound, match="does not exist"):
        metastore.find_attempts("0" * 32, [done])


# What expiry keeps


def expire(metastore: Metastore, table: TableInfo) -> list[int]:
    """Expires what may be, and returns which snapshots are left."""
    while not metastore.expire_snapshots(table.table_uuid, older_than_ms=2**50, retain_last=1).is_done:
        pass
    return snapshot_ids(metastore, table)


def test_nothing_expires_before_it_is_published(metastore: Metastore, table: TableInfo) -> None:
    uuid = table.table_uuid
    step = metastore.expire_snapshots(uuid, older_than_ms=2**50, retain_last=1, dry_run=True)
    assert [(lease.kind, lease.snapshot_id) for lease in step.held_by] == [(SnapshotLeaseKind.PUBLISHER, 0)]
    assert expire(metastore, table) == [1, 2, 3, 4, 5]
    publisher = Reporter(metastore, table)
    publisher.publish(1, 2)
    publisher.report(next_index=5)
    # The last one that is published stays: whoever publishes on looks it up.
    assert expire(metastore, table) == [2, 3, 4, 5]
    assert [lease.snapshot_id for lease in metastore.list_snapshot_leases(uuid)] == [2]
    assert plan_names(metastore, table, 2, 5) == ["a", "a", "a"]
    publisher.publish(3, 4, 5)
    assert expire(metastore, table) == [5]
    assert metastore.list_log_offsets(uuid) == [publisher.ends(5)]


def test_rows_of_the_log_outlive_compactions_until_they_are_published(metastore: Metastore, table: TableInfo) -> None:
    rewrite(metastore, table, 6, 1, 2, 3, 4, 5)
    commit_segments(metastore, table, 7, "bc")
    publisher = Reporter(metastore, table)
    publisher.publish(1, 2)
    expire(metastore, table)
    kept = metastore.list_expired_files(table.table_uuid, 100)
    assert plan_names(metastore, table, 2, 7) == ["a", "a", "a", "log-b7", "log-c7"]
    publisher.publish(3, 4, 5, 6, 7)
    expire(metastore, table)
    aborted = metastore.list_expired_files(table.table_uuid, 100)
    # Of a file that was data and log at once there is one entry in the queue, once both are over.
    assert len(aborted) == len(set(aborted)) == 5
    assert len(kept) < 5


def test_segments_go_with_their_states(metastore: Metastore) -> None:
    table = make_log_table(metastore, options={"changelog-producer": "lookup", "changelog.time-retained": "10 d"})
    for identifier in (1, 2, 3):
        commit_segments(metastore, table, identifier)
    Reporter(metastore, table).publish(1, 2, 3)
    expire(metastore, table)
    aborted = metastore.list_expired_files(table.table_uuid, 100)
    assert sorted(path.split("/")[-1] for path in aborted) == ["log-a1.parquet", "log-a2.parquet"]


def test_a_log_that_begins_after_snapshots_keeps_none_of_them(metastore: Metastore, table: TableInfo) -> None:
    metastore.restart_log(table.table_uuid)
    append(metastore, table, 6)
    append(metastore, table, 7)
    assert expire(metastore, table) == [5, 6, 7]


def test_control_without_the_snapshot_lease_unpublished_rows_are_lost(
    metastore: Metastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def keep_nothing(*_: object) -> list[SnapshotLease]:
        return []

    monkeypatch.setattr(snapshot_leases, "load_publisher_leases", keep_nothing)
    Reporter(metastore, table).publish(1, 2)
    assert expire(metastore, table) == [5]
    with pytest.raises(SnapshotExpired):
        plan_names(metastore, table, 2, 5)
