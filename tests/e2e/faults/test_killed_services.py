"""The metastore and Postgres killed, frozen and restarted while several processes commit."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing

import pytest

from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.embedded.services import is_serving
from lakelog.errors import CommitConflict, LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import Change, CommitRequest, CommitResult
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.testing.history import SeenSnapshot, Write, check_history
from tests.e2e.faults.lab import Lab
from tests.e2e.faults.writer_process import KEYED, LOG, ROWS

pytestmark = pytest.mark.e2e

WRITERS = 3
COUNT = 25
ONCE = RetryPolicy(first_backoff_s=1e9, max_backoff_s=1e9)


def under_load(lab: Lab, fault: Callable[[], None], *, times: int, count: int = COUNT) -> None:
    """Lets writers commit, brings the fault about several times in the middle, and waits for all to end."""
    writers = [lab.start_writer(f"w{n}", count=count, try_s=2.0) for n in range(WRITERS)]
    share = WRITERS * count // (times + 1)
    for number in range(times):
        lab.wait_for(lambda: len(lab.events("ends")) >= share * (number + 1), 60, "progress")  # noqa: B023
        assert any(writer.process.exitcode is None for writer in writers), "all had ended before the fault"
        fault()
    assert [writer.wait(90) for writer in writers] == [0] * WRITERS


def check_all(lab: Lab, count: int = COUNT) -> None:
    assert lab.check() == []
    with lab.connect() as catalog:
        for name in (KEYED, LOG):
            table = catalog.table(name)
            assert table.scan().count() == WRITERS * count * ROWS
            assert table.snapshots().column("id").to_pylist() == list(range(1, WRITERS * count + 1))
    assert set(lab.orphans().values()) <= {"open", "aborted"}


def test_control_without_faults_nothing_fails(lab: Lab) -> None:
    under_load(lab, lambda: None, times=1, count=5)
    check_all(lab, count=5)
    assert lab.events("fails") == []


def test_a_metastore_killed_among_commits_loses_and_doubles_nothing(lab: Lab) -> None:
    def fault() -> None:
        lab.stack.kill("metastore")
        time.sleep(0.2)
        lab.stack.restart("metastore")

    under_load(lab, fault, times=3)
    check_all(lab)


def test_a_metastore_frozen_among_commits_is_only_slow(lab: Lab) -> None:
    def fault() -> None:
        lab.stack.pause("metastore")
        time.sleep(2.5)
        lab.stack.resume("metastore")

    under_load(lab, fault, times=2)
    kinds = {event["kind"] for event in lab.events("fails")}
    assert kinds <= {"OutcomeUnknown", "Unavailable"}
    check_all(lab)


def test_postgres_killed_under_load_means_unavailable_and_then_goes_on_without_a_restart_of_the_metastore(
    lab: Lab,
) -> None:
    seen: list[LakelogError] = []
    answers: list[list[str]] = []
    stop = threading.Event()

    def ask() -> None:
        metastore = GrpcMetastore(lab.stack.target, deadlines=Deadlines(call_s=10), retries=ONCE)
        while not stop.wait(0.02):
            try:
                answers.append(metastore.list_tables("lab"))
            except LakelogError as error:
                seen.append(error)
        metastore.close()

    def fault() -> None:
        lab.stack.kill("postgres")
        time.sleep(1.0)
        lab.stack.restart("postgres")

    pid = lab.stack._components["metastore"].pid
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        under_load(lab, fault, times=2)
    finally:
        stop.set()
        asking.join()
    assert lab.stack._components["metastore"].pid == pid
    assert seen, "nobody noticed, so the fault did not take effect"
    assert {type(error) for error in seen} == {Unavailable}, {str(error) for error in seen}
    assert all(answer == ["keyed", "log"] for answer in answers), "a wrong answer"
    assert {event["kind"] for event in lab.events("fails")} <= {"OutcomeUnknown", "Unavailable"}
    check_all(lab)
    lab.wait_for(lambda: is_serving(lab.stack.target), 10, "health says SERVING again")


def stream_commits(lab: Lab, writer: str, count: int, acknowledged: list[int]) -> None:
    """Commits densely numbered, many in flight; after a failure goes on at the first that was not acknowledged."""
    with lab.connect() as catalog:
        info = catalog.table(LOG).info
        change = Change(info.table_uuid, SnapshotKind.APPEND, info.schema.schema_id, -1, allow_empty=True)
        give_up_s = time.monotonic() + 90
        while len(acknowledged) < count:
            assert time.monotonic() < give_up_s, f"{len(acknowledged)} of {count} commits after 90 s"
            answers: list[Future[CommitResult]] = []
            # Nobody there, or gone while we send: what was not sent is sent again.
            with (
                contextlib.suppress(Unavailable),
                closing(catalog.metastore.open_commit_pipeline(max_in_flight=64)) as to,
            ):
                for number in range(len(acknowledged), count):
                    request = CommitRequest(writer, number, (change,), "", number - 1)
                    answers.append(to.submit(request))
            try:
                for answer in answers:
                    answer.result(60)
                    acknowledged.append(len(acknowledged))
            except (OutcomeUnknown, Unavailable, CommitConflict) as error:
                if isinstance(error, CommitConflict) and error.reason != "IDENTIFIER_GAP":
                    raise
                time.sleep(0.1)


@pytest.mark.parametrize("killed", ["postgres", "metastore"])
def test_a_stream_of_commits_goes_on_where_it_was(lab: Lab, killed: str) -> None:
    count, writers = 1500, ("a", "b")
    acknowledged: dict[str, list[int]] = {writer: [] for writer in writers}
    threads = [threading.Thread(target=stream_commits, args=(lab, w, count, acknowledged[w])) for w in writers]
    for thread in threads:
        thread.start()
    with lab.connect() as catalog:
        lab.wait_for(
            lambda: catalog.metastore.list_snapshots(catalog.table(LOG).uuid, limit=1).latest_snapshot_id > 100, 60, ""
        )
    lab.stack.kill(killed)
    assert all(thread.is_alive() for thread in threads), "killed too late"
    lab.stack.restart(killed)
    for thread in threads:
        thread.join()
    with lab.connect() as catalog:
        snapshots = catalog.table(LOG).snapshots()
        assert snapshots.num_rows == count * len(writers)
    seen = [
        SeenSnapshot(LOG, each["id"], (f"{each['writer']}.{each['identifier']}",)) for each in snapshots.to_pylist()
    ]
    writes = [Write(w, n, {LOG: (f"{w}.{n}",)}, "acknowledged") for w in writers for n in range(count)]
    assert check_history(writes, seen) == []


def test_health_says_not_serving_while_the_database_is_away(lab: Lab) -> None:
    lab.stack.kill("postgres")
    try:
        lab.wait_for(lambda: not is_serving(lab.stack.target), 20, "health says NOT_SERVING")
        metastore = GrpcMetastore(lab.stack.target, retries=ONCE)
        with pytest.raises((Unavailable, OutcomeUnknown)) as caught:
            metastore.create_database("other")
        assert isinstance(caught.value, Unavailable), "it was certain that nothing could have happened"
        metastore.close()
    finally:
        lab.stack.restart("postgres")
    lab.wait_for(lambda: is_serving(lab.stack.target), 20, "health says SERVING")


def test_a_frozen_metastore_that_wakes_up_beside_its_successor_changes_nothing_twice(lab: Lab) -> None:
    """Two metastores over one database, the first of them a zombie with commits in its hands."""
    first = [lab.start_writer(f"w{n}", count=8, try_s=1.0) for n in range(2)]
    lab.wait_for(lambda: len(lab.events("ends")) >= 3, 30, "progress")
    lab.stack.pause("metastore")
    port = lab.stack.port + 1
    other = f"127.0.0.1:{port}"
    lab.stack.add_service(
        "metastore",
        ["serve", "--warehouse", lab.stack.warehouse, "--listen", other, "--insecure-dev"],
        name="successor",
        environment={"LAKELOG_DATABASE_URL": lab.stack.database_url},
        is_ready=lambda: is_serving(other),
    )
    try:
        # Heads that the frozen one holds locked are free again when Postgres ends its transactions, after 20 s.
        second = [lab.start_writer(f"w{n}", count=8, try_s=40.0, target=other) for n in range(2)]
        lab.wait_for(lambda: len(lab.events("done")) >= 2, 60, "the successor serves")
        lab.stack.resume("metastore")
        assert [writer.wait() for writer in first + second] == [0] * 4
    finally:
        lab.stack.resume("metastore")
        lab.stack.kill("successor")
    with lab.connect() as catalog:
        values = catalog.table(LOG).scan().to_arrow().column("v").to_pylist()
        assert sorted(values) == sorted(f"w{n}.{i}.{r}" for n in range(2) for i in range(1, 9) for r in range(ROWS))
        assert catalog.table(LOG).snapshots().column("id").to_pylist() == list(range(1, 17))
    assert lab.check() == []
