"""What is wrong, found in what the metastore says: each rule, the bounds, and names that are no friend."""

from __future__ import annotations

import shlex
from typing import Any, cast

import pytest

from lakelog.errors import PermissionDenied, Unavailable
from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.presence import Service, ServiceState
from lakelog.format.jobs.queue import JobQueue
from lakelog.format.jobs.waiting_work import ConsumerLag, ConsumerLags, FailedJob, LogLag, LogLags, WaitingWork
from lakelog.format.jobs.work import Pipeline
from lakelog.format.retention.expiry import OverdueSnapshots, SnapshotLease, SnapshotLeaseKind
from lakelog.health import health
from lakelog.health.health import find_problems, load_health
from lakelog.health.problem import Problem, Severity, cut
from lakelog.sdk.catalog import Catalog

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def overview(work: WaitingWork | None = None, overdue: tuple[OverdueSnapshots, ...] = ()) -> Overview:
    return Overview(1, 2, 3, 4, 5, 6, NOW_MS - 5, NOW_MS, work, 1_000, overdue)


def service(kind: str, silent_ms: int = 0, pid: int = 7, host: str = "h", age_ms: int = 3 * MINUTE_MS) -> Service:
    instance, began_ms = f"{pid:032x}", NOW_MS - age_ms
    return Service(kind, instance, host, pid, "0.1.0", ServiceState.RUNNING, ("w",), "", began_ms, silent_ms, 30_000)


def pipeline(name: str, state: str = "running", **changes: Any) -> Pipeline:
    values: dict[str, Any] = {"last_error": "", "reported_at_ms": NOW_MS - 10, "holder": "w", "lag": 0} | changes
    lag = values.pop("lag")
    return Pipeline(name, "shop.orders", "kafka", state, None, "", lag, 1, 0, **values)


class FakeCatalog:
    """Answers what a test says, or fails."""

    def __init__(self, found: Overview | Exception, services: Any = (), pipelines: Any = ()) -> None:
        self._found, self._services, self._pipelines = found, services, pipelines
        self.metastore = self

    def overview(self) -> Overview:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    def list_services(self) -> list[Service]:
        if isinstance(self._services, Exception):
            raise self._services
        return list(self._services)

    def list_pipelines(self) -> list[Pipeline]:
        return list(self._pipelines)


def find(*args: Any, **kwargs: Any) -> list[Problem]:
    return find_problems(cast(Catalog, FakeCatalog(*args, **kwargs)))


def test_nothing_is_wrong_with_what_is_fine() -> None:
    work = WaitingWork(
        (JobQueue("compact", 9, 1, 1, 0, 10 * MINUTE_MS),),
        logs=LogLags(1, 1, 500, (LogLag("a.b", 1, 500, False),)),
        consumers=(ConsumerLags("read", 1, 1, 500, (ConsumerLag("a.b", "c", 1, 500, 1),)),),
    )
    assert find(overview(work), [service("compactor"), service("metastore")], [pipeline("p")]) == []
    assert find(overview()) == []


def test_a_metastore_that_is_away_is_a_problem() -> None:
    found = load_health(cast(Catalog, FakeCatalog(Unavailable("No answer from h:1 within 30 s."))))
    (problem,) = found.problems
    assert (problem.severity, problem.kind, problem.remedy) == (Severity.FAILED, "metastore", "lakelog doctor")
    assert "No answer from h:1" in problem.summary
    assert (found.overview, found.services, found.latency_ms) == (None, None, None)


def test_a_slow_metastore_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SLOW_MS", 0.0)
    assert [each.kind for each in find(overview())] == ["metastore"]


def test_a_caller_that_may_not_list_services_learns_the_rest() -> None:
    work = WaitingWork(failed_jobs=(FailedJob(7, "a.b", "compact", "no room", 100),))
    refused = PermissionDenied("Not for you.")
    assert [each.kind for each in find(overview(work), refused, [pipeline("p", "failed")])] == ["pipeline", "job"]


def test_services_and_pipelines() -> None:
    found = find(
        overview(),
        [service("reader", 16_000), service("writer", 31_000)],
        [
            pipeline("late", lag=2_000_000),
            pipeline("dead", "failed", last_error="no\nsuch file"),
            pipeline("left", holder=""),
            pipeline("done", "stopped", holder=""),
            pipeline("quiet", reported_at_ms=NOW_MS - 2 * MINUTE_MS),
        ],
    )
    said = [(each.severity.value, each.kind, each.concerns) for each in found]
    assert said[0] == ("failed", "service", "writer 7 on h")
    assert sorted(said[1:3]) == [("failed", "pipeline", "dead"), ("failed", "pipeline", "left")]
    assert said[3:] == [
        ("warning", "service", "reader 7 on h"),
        ("warning", "pipeline", "quiet"),
        ("warning", "pipeline", "late"),
    ]
    assert found[0].since_ms == NOW_MS - 31_000
    (dead,) = [each for each in found if each.concerns == "dead"]
    assert dead.summary == "Pipeline dead has failed: no such file."


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        # Started again, once and twice.
        ([service("reader", 40_000), service("reader", 0, 8, age_ms=35_000)], ["warning reader 7"]),
        (
            [
                service("reader", 90_000),
                service("reader", 40_000, 8, age_ms=85_000),
                service("reader", 0, 9, age_ms=35_000),
            ],
            ["warning reader 7", "warning reader 8"],
        ),
        # The other one ran already, is of another kind, or is elsewhere.
        ([service("reader", 40_000), service("reader", 0, 8, age_ms=50_000)], ["failed reader 7"]),
        ([service("reader", 40_000), service("console", 0, 8, age_ms=35_000)], ["failed reader 7"]),
        ([service("reader", 40_000), service("reader", 0, 8, "i", age_ms=35_000)], ["failed reader 7"]),
        # One was started for two.
        (
            [service("reader", 40_000), service("reader", 50_000, 8), service("reader", 0, 9, age_ms=35_000)],
            ["failed reader 8", "warning reader 7"],
        ),
        # The one that was started is gone as well.
        (
            [service("reader", 90_000), service("reader", 40_000, 8, age_ms=85_000)],
            ["failed reader 8", "warning reader 7"],
        ),
    ],
)
def test_a_service_that_was_started_again_is_not_missed(services: list[Service], expected: list[str]) -> None:
    found = find(overview(), [service("compactor", 0, 1), *services])
    assert [f"{each.severity.value} {each.concerns.removesuffix(' on h')}" for each in found] == expected


@pytest.mark.parametrize(
    ("services", "severity", "remedy"),
    [
        ([], Severity.FAILED, "lakelog compactor run"),
        ([service("compactor", 40_000)], Severity.FAILED, "lakelog compactor run"),
        ([service("compactor")], Severity.WARNING, "lakelog jobs list"),
    ],
)
def test_jobs_that_no_one_does(services: list[Service], severity: Severity, remedy: str) -> None:
    work = WaitingWork((JobQueue("compact", 2, 0, 0, 0, 5 * MINUTE_MS),))
    found = [each for each in find(overview(work), services) if each.kind == "compactor"]
    assert [(each.severity, each.remedy) for each in found] == [(severity, remedy)]
    assert found[0].since_ms == NOW_MS - 1_000 - 5 * MINUTE_MS


def test_logs_and_consumers_that_lag() -> None:
    lags = (LogLag("a.a", 2, 900, True, "the topic is gone"), LogLag("a.b", 1, 2 * MINUTE_MS, False))
    work = WaitingWork(
        logs=LogLags(7, 20, 2 * MINUTE_MS, lags),
        consumers=(
            ConsumerLags("silent", 1, 5, 20 * MINUTE_MS, (ConsumerLag("a.a", "etl", 5, 20 * MINUTE_MS, None),)),
        ),
    )
    found = find(overview(work), [service("publisher")])
    assert [(each.severity.value, each.kind, each.remedy) for each in found] == [
        ("failed", "log", "lakelog log status a.a"),
        ("warning", "log", "lakelog log status a.b"),
        ("warning", "log", "lakelog log status"),
        ("warning", "consumer", "lakelog consumers list a.a"),
    ]
    assert found[2].summary == "5 more of this kind are not listed."
    without = find(overview(work), [])
    assert [each.remedy for each in without if each.severity is Severity.FAILED][1] == "lakelog publisher run"


def test_who_holds_back_expiry_and_since_when() -> None:
    def held(kind: SnapshotLeaseKind, holder: str) -> OverdueSnapshots:
        return OverdueSnapshots("shop.orders", SnapshotLease(kind, holder, 1), 4, NOW_MS - 9_000)

    found = find(overview(None, tuple(held(kind, "x y") for kind in SnapshotLeaseKind)))
    assert [each.remedy for each in found] == [
        "lakelog consumers delete shop.orders 'x y'",
        "lakelog table describe shop.orders",
        "lakelog jobs list shop.orders",
        "lakelog log status shop.orders",
    ]
    assert {each.since_ms for each in found} == {NOW_MS - 9_000}
    assert found[0].summary == "4 snapshots of shop.orders would have expired, but consumer x y needs them."


def test_twenty_of_a_kind_are_listed_and_how_many_more_there_are() -> None:
    jobs = tuple(FailedJob(number, "a.b", "compact", "why", number) for number in range(50))
    work = WaitingWork((JobQueue("compact", 0, 0, 0, 1234, 0),), failed_jobs=jobs)
    found = find(overview(work))
    assert len(found) == 21
    assert found[-1].summary == "1,214 more of this kind are not listed."
    assert found[-1].remedy == "lakelog jobs list"


def test_hostile_texts_stay_on_one_line_and_in_one_word() -> None:
    holder = "etl'; rm -rf ~\x1b[2J\n" + "x" * 5_000
    held = OverdueSnapshots("a.b", SnapshotLease(SnapshotLeaseKind.CONSUMER, holder, 1), 1, NOW_MS)
    (problem,) = find(overview(None, (held,)))
    assert shlex.split(problem.remedy)[-1] == holder
    assert len(problem.summary) < 500
    assert problem.summary.isprintable()
    assert cut("a\tb\r\n c") == "a b c."
