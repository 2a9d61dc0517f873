"""The compactor's loop, over a metastore that says what a test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from compactor.compactions.dedicated import DedicatedCompaction
from compactor.executor import Control
from compactor.exit_status import ExitStatus
from compactor.metrics import Metrics
from compactor.queue_watch import QueueWatch
from compactor.service import Service, to_reason
from lakelog.clock import SystemClock
from lakelog.errors import (
    DataCorrupted,
    Fenced,
    InternalError,
    LakelogError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from lakelog.format.jobs.job import Job, JobState
from lakelog.format.jobs.queue import JobQueue, PlannedTable
from lakelog.storage.objects.stores import LocationStores

JOB = Job(7, "0" * 32, "shop.t", "changelog", "", JobState.LEASED, 0, {}, 1, "", "", 3, "me", 1000, 0, 0)


class FakeMetastore:
    """Has some jobs, and remembers what it is told."""

    def __init__(self, *jobs: Job | LakelogError) -> None:
        self.jobs = list(jobs)
        self.calls: list[tuple[Any, ...]] = []
        self.left: list[bool] = []
        self.passing: list[bool] = []
        self.asked_for: list[list[str]] = []
        self.closed = threading.Event()
        self.heartbeat_error: LakelogError | None = None

    def lease_job(self, kinds: Any, tables: Any, holder: str, *, duration_ms: int, wait_ms: int) -> Job | None:
        self.asked_for.append(list(tables))
        if not self.jobs:
            self.closed.wait(wait_ms / 1000)
            if self.closed.is_set():
                raise Unavailable("closed")
            return None
        found = self.jobs.pop(0)
        if isinstance(found, LakelogError):
            raise found
        return found

    def heartbeat_job(self, job_id: int, epoch: int, duration_ms: int) -> int:
        self.calls.append(("heartbeat", job_id, epoch))
        if self.heartbeat_error is not None:
            raise self.heartbeat_error
        return duration_ms

    def finish_job(self, job_id: int, epoch: int, outcome: str, *, work_left: bool) -> bool:
        self.calls.append(("finish", job_id, epoch, outcome))
        self.left.append(work_left)
        return work_left

    def fail_job(self, job_id: int, epoch: int, reason: str, *, final: bool, passing: bool) -> JobState:
        self.calls.append(("fail", job_id, epoch, reason, final))
        self.passing.append(passing)
        return JobState.DUE

    def plan_compactions(self, table_uuid: str, after: int) -> PlannedTable:
        self.calls.append(("plan", table_uuid, after))
        if table_uuid == "gone":
            raise NotFound("no such table", reason="TABLE_NOT_FOUND")
        return PlannedTable(after + 3, 1)

    def describe_queue(self) -> list[JobQueue]:
        return [JobQueue("compact", 2, 1, 1, 3, 4_000)]

    def close(self) -> None:
        self.closed.set()


class FakeExecutor:
    def __init__(self, do: Callable[[Control], str]) -> None:
        self._do = do

    def do(self, job: Job, control: Control) -> str:
        return self._do(control)


def make(metastore: FakeMetastore, do: Callable[[Control], str] = lambda _: "did it", **more: Any) -> Service:
    fields: dict[str, Any] = {
        "waiting": metastore,
        "find_tables": tuple,
        "executors": {"changelog": FakeExecutor(do)},
        "stores": LocationStores(),
        "holder": "me",
        "lease_s": 0.3,
        "max_unavailable_s": 0.0,
        "once": True,
        "clock": SystemClock(),
        "metrics": Metrics(),
        "log": structlog.get_logger(),
        "dedicated_compaction": DedicatedCompaction(metastore, structlog.get_logger()),  # type: ignore[arg-type]
        "queue": QueueWatch(metastore, SystemClock(), Metrics(), structlog.get_logger()),  # type: ignore[arg-type]
    }
    return Service(metastore, **{**fields, **more})  # type: ignore[arg-type]


def raising(error: Exception) -> Callable[[Control], str]:
    def do(_control: Control) -> str:
        raise error

    return do


def test_a_job_that_went_well_is_finished_with_what_was_done() -> None:
    metastore = FakeMetastore(JOB, JOB)
    assert make(metastore).run() is ExitStatus.FINE
    assert metastore.calls == [("finish", 7, 3, "did it")] * 2
    assert metastore.left == [False, False]


@pytest.mark.parametrize(
    ("error", "final"),
    [(DataCorrupted("x.parquet is damaged"), True), (Unavailable("away"), False), (RuntimeError("a bug"), False)],
)
def test_a_job_that_failed_is_reported_and_the_service_goes_on(error: Exception, final: bool) -> None:
    metastore = FakeMetastore(JOB, JOB)
    assert make(metastore, raising(error)).run() is ExitStatus.FINE
    assert [call[:1] + call[4:] for call in metastore.calls] == [("fail", final)] * 2
    assert str(error) in metastore.calls[0][3]


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (Unavailable("away"), True),
        (ResourceExhausted("no space left", reason="DISK_FULL"), True),
        (ResourceExhausted("more than a footer may have"), False),
        (RuntimeError("a bug"), False),
    ],
)
def test_what_may_pass_is_never_given_up(error: Exception, passing: bool) -> None:
    metastore = FakeMetastore(JOB)
    make(metastore, raising(error)).run()
    assert metastore.passing == [passing]


@pytest.mark.parametrize("error", [Fenced("another"), NotFound("dropped", reason="TABLE_NOT_FOUND")])
def test_a_lost_job_is_not_reported(error: LakelogError) -> None:
    metastore = FakeMetastore(JOB)
    assert make(metastore, raising(error)).run() is ExitStatus.FINE
    assert metastore.calls == []


def test_what_else_is_missing_fails_the_job() -> None:
    metastore = FakeMetastore(JOB)
    make(metastore, raising(NotFound("no such snapshot", reason="SNAPSHOT_NOT_FOUND"))).run()
    assert metastore.calls[0][0] == "fail"


def test_heartbeats_go_out_and_notify_when_the_job_is_lost() -> None:
    metastore = FakeMetastore(JOB)
    metastore.heartbeat_error = Fenced("another does it")

    def do(control: Control) -> str:
        for _ in range(50):
            time.sleep(0.02)
            control.check()
        return "never"

    make(metastore, do).run()
    assert metastore.calls == [("heartbeat", 7, 3)]


def test_a_heartbeat_that_is_not_answered_changes_nothing() -> None:
    metastore = FakeMetastore(JOB)
    metastore.heartbeat_error = Unavailable("away")

    def do(_control: Control) -> str:
        time.sleep(0.35)
        return "did it"

    make(metastore, do).run()
    assert [call[0] for call in metastore.calls].count("heartbeat") >= 2
    assert metastore.calls[-1] == ("finish", 7, 3, "did it")


def test_a_signal_ends_a_wait_at_once() -> None:
    metastore = FakeMetastore()
    service = make(metastore, once=False)
    threading.Timer(0.2, service.stop).start()
    began = time.monotonic()
    assert service.run() is ExitStatus.FINE
    assert time.monotonic() - began < 2
    assert metastore.closed.is_set()


def test_a_signal_ends_a_job_after_the_step_in_hand_and_gives_it_back() -> None:
    metastore = FakeMetastore(JOB, JOB)

    def do(control: Control) -> str:
        service.stop()
        assert control.is_stopping
        return "half of it"

    service = make(metastore, do, once=False)
    assert service.run() is ExitStatus.FINE
    assert metastore.calls == [("finish", 7, 3, "half of it")]
    assert metastore.left == [True]


def test_where_no_table_is_left_nothing_is_asked_for_and_a_signal_still_ends_it() -> None:
    metastore = FakeMetastore(JOB)
    assert make(metastore, find_tables=lambda: None).run() is ExitStatus.FINE
    assert metastore.asked_for == [], "to ask for the jobs of no table is to ask for those of all"
    service = make(metastore, find_tables=lambda: None, once=False)
    threading.Timer(0.2, service.stop).start()
    began = time.monotonic()
    assert service.run() is ExitStatus.FINE
    assert time.monotonic() - began < 2
    assert service.is_healthy
    assert metastore.asked_for == []


def test_a_metastore_that_is_away_for_too_long_ends_it() -> None:
    assert make(FakeMetastore(Unavailable("away"))).run() is ExitStatus.UNAVAILABLE
    assert make(FakeMetastore(Unavailable("away"), JOB), max_unavailable_s=60.0).run() is ExitStatus.FINE
    assert make(FakeMetastore(PermissionDenied("no"))).run() is ExitStatus.INVALID


def test_reasons_are_one_line_that_the_metastore_takes() -> None:
    assert to_reason(DataCorrupted("a\nb \0 c")) == "a b \\x00 c"
    assert to_reason(ValueError("x")) == "ValueError: x"
    assert len(to_reason(ValueError("x" * 10_000))) == 2000


def test_named_tables_are_planned_before_jobs_are_asked_for_after_what_was_planned() -> None:
    metastore = FakeMetastore(JOB, JOB)
    service = make(metastore, find_tables=lambda: ["a", "gone"], once=True)
    assert service.run() is ExitStatus.FINE
    planned = [call[1:] for call in metastore.calls if call[0] == "plan"]
    assert planned == [("a", 0), ("gone", 0), ("a", 3), ("gone", 0), ("a", 6), ("gone", 0)]
    # Of all tables nobody plans anything: it is done where commits are.
    other = FakeMetastore(JOB)
    make(other).run()
    assert not [call for call in other.calls if call[0] == "plan"]


def test_what_waits_is_measured_now_and_then_and_what_fails_of_it_stops_no_one() -> None:
    metastore, metrics = FakeMetastore(), Metrics()
    queues = [[JobQueue("compact", 2, 1, 1, 3, 4_000)], []]
    metastore.describe_queue = lambda: queues.pop(0)  # type: ignore[method-assign]
    clock = StoppedClock()
    watch = QueueWatch(metastore, clock, metrics, structlog.get_logger())  # type: ignore[arg-type]
    watch.poll()
    watch.poll()

    def shown(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"lakelog_compactor_{name}", {"kind": "compact", **labels})

    states = ("due", "resting", "leased", "failed")
    assert [shown("queued_jobs", state=state) for state in states] == [2, 1, 1, 3]
    assert shown("oldest_due_seconds") == 4
    clock.now_s += 10
    watch.poll()
    assert [shown("queued_jobs", state=state) for state in states] == [0, 0, 0, 0]
    assert shown("oldest_due_seconds") == 0

    def fail() -> list[JobQueue]:
        raise Unavailable("away")

    metastore.describe_queue = fail  # type: ignore[method-assign]
    clock.now_s += 10
    watch.poll()


def test_a_slow_queue_report_keeps_no_heartbeat_waiting() -> None:
    metastore, reported = FakeMetastore(JOB), threading.Event()

    def describe_slowly() -> list[JobQueue]:
        # The first look, before there is a job, is answered at once.
        if metastore.calls:
            reported.wait(10)
        return []

    metastore.describe_queue = describe_slowly  # type: ignore[method-assign]
    clock = StoppedClock()
    watch = QueueWatch(metastore, clock, Metrics(), structlog.get_logger())  # type: ignore[arg-type]

    def do(_control: Control) -> str:
        clock.now_s += 60
        for _ in range(100):
            if len(metastore.calls) >= 4:
                return "did it"
            time.sleep(0.05)
        return "late"

    make(metastore, do, queue=watch).run()
    reported.set()
    assert metastore.calls[-1] == ("finish", 7, 3, "did it")


def test_a_table_that_cannot_be_planned_keeps_no_other_from_its_jobs() -> None:
    metastore = FakeMetastore(JOB)
    plan = metastore.plan_compactions

    def plan_all_but_one(table_uuid: str, after: int) -> PlannedTable:
        if table_uuid == "broken":
            raise InternalError("a defect")
        return plan(table_uuid, after)

    metastore.plan_compactions = plan_all_but_one  # type: ignore[method-assign]
    assert make(metastore, find_tables=lambda: ["broken", "a"]).run() is ExitStatus.FINE
    assert [call for call in metastore.calls if call[0] != "finish"] == [("plan", "a", 0), ("plan", "a", 3)]
    assert metastore.calls[1] == ("finish", 7, 3, "did it")


@pytest.mark.parametrize("error", [Unavailable("away"), PermissionDenied("no")])
def test_a_metastore_that_does_not_plan_for_us_is_reported_as_ever(error: LakelogError) -> None:
    metastore = FakeMetastore(JOB)

    def refuse(table_uuid: str, after: int) -> PlannedTable:
        raise error

    metastore.plan_compactions = refuse  # type: ignore[method-assign]
    assert make(metastore, find_tables=lambda: ["a"]).run() is not ExitStatus.FINE


def test_write_amplification_counts_what_compactions_write_of_what_writers_brought() -> None:
    metrics = Metrics()
    metrics.count_compaction(0, 0, 0)
    metrics.count_compaction(100, 100, 80)
    # What was written is taken again, with as much that is new.
    metrics.count_compaction(180, 100, 170)
    value = metrics.registry.get_sample_value
    assert value("lakelog_compactor_write_amplification") == 1 + 250 / 200
    assert value("lakelog_compactor_new_bytes_total") == 200
    assert value("lakelog_compactor_compacted_bytes_total", {"direction": "read"}) == 280


class StoppedClock(SystemClock):
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def test_it_is_ready_once_the_metastore_has_answered_and_until_it_stops() -> None:
    metastore, ready = FakeMetastore(JOB), list[bool]()

    def do(_control: Control) -> str:
        ready.append(service.is_ready)
        return "did it"

    service = make(metastore, do)
    ready.append(service.is_ready)
    service.run()
    assert ready == [False, True]
    service.stop()
    assert not service.is_ready
