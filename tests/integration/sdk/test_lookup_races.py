"""Commits that look old rows up while others change the same buckets (semantics 3.5)."""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path
from random import Random

import pytest

from lakelog.clock import SystemClock
from lakelog.errors import CommitConflict, DataCorrupted, OutcomeUnknown
from lakelog.format.commit.request import ANY_TIME, CommitRequest, CommitResult
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.tables.data_files import data_files
from tests.support.tables.faulty import FaultyMetastore
from tests.support.tables.keyed import changelog_paths, emitted, make, replayed, rows, shown
from tests.support.tables.racing import first_let


@pytest.fixture
def raced(metastore: InProcessMetastore) -> tuple[FaultyMetastore, Catalog, Catalog]:
    """A metastore that a test may interrupt, a catalog that goes through it, and another one that does not."""
    faulty = FaultyMetastore(metastore)
    return faulty, Catalog(faulty, LocationStores(), rng=lambda: 0.0), Catalog(metastore, LocationStores())


def test_who_lost_the_race_looks_up_again_what_has_changed(
    raced: tuple[FaultyMetastore, Catalog, Catalog], warehouse: Path
) -> None:
    faulty, mine, others = raced
    others.create_database("shop")
    table = make(others, "lookup")
    table.write(rows("+I 1|1|1", "+I 2|1|1"))
    first_let(faulty, lambda: table.write(rows("+U 1|1|2")))
    mine.table("shop.t").write(rows("+U 1|1|3", "+U 2|1|3"))
    assert emitted(table, 1) == ["-U 1|1|1", "+U 1|1|2", "-U 1|1|2", "+U 1|1|3", "-U 2|1|1", "+U 2|1|3"]
    assert replayed(table) == shown(table)
    tries = [request.changes[0] for request in faulty.commits]
    assert [each.base_snapshot_id for each in tries] == [1, 2]
    before, after = ({file.path for file in each.changelog_files} for each in tries)
    assert (len(before), len(after), len(before & after)) == (2, 2, 1), "the other bucket's changes are as they were"
    # What was looked up in vain is gone.
    left = [path for path in data_files(warehouse) if "changelog" in path]
    assert sorted(path.split("/", 1)[1] for path in left) == changelog_paths(table, others.metastore)


def test_without_the_check_the_changelog_is_wrong(raced: tuple[FaultyMetastore, Catalog, Catalog]) -> None:
    """The control of the test before."""
    faulty, mine, others = raced
    others.create_database("shop")
    table = make(others, "lookup")
    table.write(rows("+I 1|1|1"))

    def unchecked(request: CommitRequest) -> CommitRequest:
        # As if it had looked at what came meanwhile.
        changes = tuple(
            dataclasses.replace(each, base_snapshot_id=2, base_snapshot_uuid="") for each in request.changes
        )
        return dataclasses.replace(request, changes=changes)

    first_let(faulty, lambda: table.write(rows("+U 1|1|2")), change=unchecked)
    mine.table("shop.t").write(rows("+U 1|1|3"))
    assert len(faulty.commits) == 1
    with pytest.raises(AssertionError, match="takes away what was not there"):
        replayed(table)
    # Nor does it know that it supersedes the row that came meanwhile.
    assert sorted(table.scan().to_arrow().column("v").to_pylist()) == [2, 3]


def test_a_lost_answer_and_then_a_lost_race(raced: tuple[FaultyMetastore, Catalog, Catalog]) -> None:
    """The repetition of the commit is refused, so that it is certain to have had no effect; then it looks up again."""
    faulty, mine, others = raced
    others.create_database("shop")
    table = make(others, "lookup")
    table.write(rows("+I 1|1|1"))

    def lose(request: CommitRequest) -> CommitResult:
        first_let(faulty, lambda: table.write(rows("+U 1|1|2")))
        raise OutcomeUnknown("lost")

    faulty.on_commit = lose
    mine.table("shop.t").write(rows("+U 1|1|3"))
    assert len(faulty.commits) == 3
    assert emitted(table, 1) == ["-U 1|1|1", "+U 1|1|2", "-U 1|1|2", "+U 1|1|3"]


def test_an_answer_lost_after_the_commit(raced: tuple[FaultyMetastore, Catalog, Catalog]) -> None:
    faulty, mine, others = raced
    others.create_database("shop")
    table = make(others, "lookup")

    def lose(request: CommitRequest) -> CommitResult:
        faulty.inner.commit(request)
        faulty.on_commit = None
        raise OutcomeUnknown("lost")

    faulty.on_commit = lose
    written = mine.table("shop.t").write(rows("+I 1|1|3"))
    assert (written.snapshot_id, written.already_applied) == (1, False)
    assert emitted(table, 0) == ["+I 1|1|3"]


def test_a_race_that_never_ends_is_given_up(raced: tuple[FaultyMetastore, Catalog, Catalog], warehouse: Path) -> None:
    faulty, mine, others = raced
    others.create_database("shop")
    table = make(others, "lookup")
    first_let(faulty, lambda: table.write(rows("+U 1|1|2")), times=1000)
    with pytest.raises(CommitConflict) as error:
        mine.table("shop.t").write(rows("+U 1|1|3"))
    assert "was tried 20 times, and each time another commit came first" in error.value.message
    assert "more buckets" in error.value.message
    assert error.value.reason == "BUCKET_CHANGED"
    assert replayed(table) == shown(table) == {(1, 1): 2}
    attempt = faulty.commits[0].attempt_id
    assert not [path for path in data_files(warehouse) if attempt in path]


def test_many_writers_of_one_bucket(catalog: Catalog, metastore: InProcessMetastore) -> None:
    table = make(catalog, "lookup")
    failures: list[BaseException] = []

    def write(seed: int) -> None:
        random = Random(seed)
        own = Catalog(metastore, LocationStores()).table("shop.t")
        try:
            for number in range(6):
                kinds = [random.choice(("+I", "+U", "-D")) for _ in range(5)]
                own.write(rows(*(f"{kind} 1|{random.randrange(8)}|{seed * 100 + number}" for kind in kinds)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert table.snapshots().num_rows == 18
    assert replayed(table) == shown(table)


RETENTION = {"sequence.field": "v", "sequence.delete-retention": "1 s"}


def late_after_a_delete(catalog: Catalog) -> Table:
    """A delete of sequence 10, so that a row of sequence 5 is late for a second."""
    catalog.create_database("shop")
    table = make(catalog, "lookup", **RETENTION)
    table.write(rows("+I 1|1|9", "+I 1|2|9", "+I 1|3|9"))
    table.write(rows("-D 1|1|10", "-D 1|2|10", "+I 1|3|10"))
    return table


@pytest.mark.parametrize("checked", [True, False])
def test_a_delete_that_stops_beating_late_rows_meanwhile(
    raced: tuple[FaultyMetastore, Catalog, Catalog], checked: bool
) -> None:
    faulty, mine, others = raced
    table = late_after_a_delete(others)

    def unchecked(request: CommitRequest) -> CommitRequest:
        # The control: as if it held at any time.
        changes = tuple(dataclasses.replace(each, window=ANY_TIME) for each in request.changes)
        return dataclasses.replace(request, changes=changes)

    first_let(faulty, lambda: time.sleep(1.1), change=(lambda each: each) if checked else unchecked)
    mine.table("shop.t").write(rows("+I 1|1|5", "+I 1|3|5"))
    assert shown(table) == {(1, 1): 5, (1, 3): 10}
    if checked:
        assert len(faulty.commits) == 2
        assert emitted(table, 2) == ["+I 1|1|5", "-U 1|3|10", "+U 1|3|10"]
        assert replayed(table) == shown(table)
    else:
        assert replayed(table) != shown(table)


@pytest.mark.parametrize("ahead_ms", [-5_000, 5_000])
def test_only_the_clock_of_the_database_counts(raced: tuple[FaultyMetastore, Catalog, Catalog], ahead_ms: int) -> None:
    faulty, _, others = raced
    table = late_after_a_delete(others)

    class Wrong(SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() + ahead_ms

    mine = Catalog(faulty, LocationStores(), clock=Wrong(), rng=lambda: 0.0)
    mine.table("shop.t").write(rows("+I 1|1|5"))
    assert shown(table) == {(1, 3): 10}
    assert len(faulty.commits) == (2 if ahead_ms > 0 else 1)
    time.sleep(1.1)
    mine.table("shop.t").write(rows("+I 1|2|5"))
    assert shown(table) == {(1, 2): 5, (1, 3): 10}
    assert replayed(table) == shown(table)


@pytest.mark.parametrize("is_replaced", [True, False])
def test_old_rows_that_expired_since_they_were_planned_are_planned_again(
    raced: tuple[FaultyMetastore, Catalog, Catalog], is_replaced: bool
) -> None:
    faulty, mine, others = raced
    others.create_database("shop")
    table = make(others, "lookup", **{"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"})
    table.write(rows("+I 1|1|1", "+I 2|1|1"))
    folder = Path(table.location.removeprefix("file://"))
    plans: list[Plan] = []

    def plan(request: PlanRequest) -> Plan:
        plans.append(faulty.inner.plan(request))
        if len(plans) == 1:
            if is_replaced:
                table.overwrite(rows("+I 1|1|5").drop_columns(["_row_kind"]))
                table.expire_snapshots()
                gone = faulty.inner.list_expired_files(table.uuid, 100)
            else:
                gone = plans[0].files["path"].to_pylist()
            for path in gone:
                (folder / path).unlink()
        return plans[-1]

    faulty.plan = plan  # type: ignore[attr-defined]
    if is_replaced:
        mine.table("shop.t").write(rows("+U 1|1|3"))
        assert shown(table) == {(1, 1): 3}
        assert emitted(table, 2) == ["-U 1|1|5", "+U 1|1|3"]
        return
    # What is still part of the table and not there is damage, as ever.
    with pytest.raises(DataCorrupted, match="is missing, though the table refers to it"):
        mine.table("shop.t").write(rows("+U 1|1|3"))
    assert len(plans) == 2
