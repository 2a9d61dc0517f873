"""When a stream's batches are done, repeated and ended: over a query that does what a test says, without Spark."""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from pyspark.errors import PySparkException, StreamingQueryException

from lakelog.clock import SystemClock
from lakelog.errors import Fenced, InvalidArgument, LakelogError, Unavailable
from lakelog.serving.streams import leased_stream
from lakelog.serving.streams.batch_gate import Stop
from lakelog.serving.streams.bridge_logging import hold_back_traces
from lakelog.serving.streams.leased_stream import Events, LeasedStream, WriteBatch

JAVA_TEXT = """Job aborted.
	at org.apache.spark.scheduler.DAGScheduler.failJob(DAGScheduler.scala:2978)
Caused by: org.apache.spark.SparkException: Task failed
	at org.apache.spark.scheduler.Task.run(Task.scala:141)
Caused by: java.io.IOException: No space left on device
	at java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""


class ExitStatus(enum.IntEnum):
    FINE = 0
    FAILED = 1
    LOST = 4


class Lease:
    """Is there at once, and counts how often it is given back."""

    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


class FakeListener:
    def __init__(self) -> None:
        self.failures: list[str] = []
        self.exit_statuses: list[str | None] = []

    def failed_for_now(self, error: BaseException) -> None:
        self.failures.append(str(error))

    def ended(self, error: BaseException | None) -> None:
        self.exit_statuses.append(None if error is None else str(error))


class Query:
    """What Spark's query shows: whether it runs, and what ended it."""

    def __init__(
        self, failure: Exception | None = None, *, runs: bool = False, message: str = "Processing new data"
    ) -> None:
        self.isActive = runs
        self.failure = failure
        self.status = {"message": message}

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        self.isActive = False


class SetClock(SystemClock):
    """Shows the time that a test says."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


class Stream:
    """A stream under a lease that does the batches a test hands it."""

    def __init__(self, max_unavailable_s: float = 60.0) -> None:
        self.events = Events()
        self.listener = FakeListener()
        self.lease: Any = Lease()
        self.looks = 0
        self.leased: LeasedStream[ExitStatus] = LeasedStream(
            "stream 'copy'",
            Path("/checkpoint"),
            events=self.events,
            listener=self.listener,
            fine=ExitStatus.FINE,
            to_exit_status=lambda error: ExitStatus.LOST if isinstance(error, Fenced) else ExitStatus.FAILED,
            max_unavailable_s=max_unavailable_s,
            clock=SystemClock(),
            log=structlog.get_logger(),
        )

    def run(
        self, start: Callable[[WriteBatch], Any], write: Callable[[Any, int], None] = lambda *_: None
    ) -> ExitStatus:
        def step() -> None:
            self.leased.drive(start, write, self._look, lambda _: True)

        return self.leased.run(self.lease, lambda: True, lambda: self.leased.repeat(step))

    def _look(self, _query: Any) -> None:
        self.looks += 1


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(leased_stream, "_FIRST_PAUSE_S", 0.01)
    yield
    structlog.reset_defaults()


def do_batch(write_batch: WriteBatch) -> Query:
    """Hands on a batch as Spark does, which makes an error of its own of whatever a batch raises."""
    frame: Any = None
    try:
        write_batch(frame, 7)
    except LakelogError:
        return Query(RuntimeError("foreachBatch failed"))
    return Query()


def test_a_batch_is_repeated_after_what_may_pass() -> None:
    stream, tries = Stream(), []

    def write(_batch: Any, batch_id: int) -> None:
        tries.append(batch_id)
        if len(tries) < 3:
            raise Unavailable("away")

    assert stream.run(do_batch, write) is ExitStatus.FINE
    assert tries == [7, 7, 7]
    assert stream.listener.failures == ["away", "away"]
    assert stream.listener.exit_statuses == [None]
    assert stream.lease.released == 1


def test_but_not_after_what_stays_as_it_is() -> None:
    stream = Stream()

    def write(_batch: Any, _batch_id: int) -> None:
        raise InvalidArgument("a bad record")

    assert stream.run(do_batch, write) is ExitStatus.FAILED
    assert (stream.listener.failures, stream.listener.exit_statuses) == ([], ["a bad record"])


def test_nor_for_ever() -> None:
    stream = Stream(max_unavailable_s=0.05)

    def write(_batch: Any, _batch_id: int) -> None:
        raise Unavailable("away")

    assert stream.run(do_batch, write) is ExitStatus.FAILED
    assert stream.listener.exit_statuses == ["away"]


@pytest.mark.parametrize("message", ["Waiting for data to arrive", "Waiting for next trigger", "Getting offsets"])
def test_the_stall_timer_begins_where_it_last_found_nothing_to_do(
    message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic in which nothing comes for an hour is no failure of an hour."""
    monkeypatch.setattr(leased_stream, "POLL_EVERY_S", 0.0)
    stream, clock = Stream(max_unavailable_s=60.0), SetClock()
    stream.leased._clock = clock
    idle = Query(Unavailable("away"), runs=True, message=message)

    def look(_query: Any) -> None:
        if idle.isActive:
            clock.now_s += 3600.0
        idle.isActive = clock.now_s < 3 * 3600.0

    monkeypatch.setattr(stream, "_look", look)
    queries = iter([idle, Query()])
    exit_status = stream.run(lambda _: next(queries))
    is_idle = message.startswith("Waiting")
    assert exit_status is (ExitStatus.FINE if is_idle else ExitStatus.FAILED)
    assert stream.listener.failures == (["away"] if is_idle else [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", "into the checkpoint /checkpoint"),
        ("SparkException: Python worker failed to connect back.", "did not start in time"),
    ],
)
def test_what_spark_says_of_others_and_of_a_busy_machine_may_pass(text: str, said: str) -> None:
    stream = Stream()
    queries = iter([Query(RuntimeError(text)), Query()])
    assert stream.run(lambda _: next(queries)) is ExitStatus.FINE
    (failure,) = stream.listener.failures
    assert said in failure


def test_what_else_spark_says_ends_it() -> None:
    stream = Stream()
    assert stream.run(lambda _: Query(RuntimeError("out of memory"))) is ExitStatus.FAILED
    assert stream.listener.exit_statuses == ["out of memory"]


def test_stopping_lets_no_batch_in_and_ends_well() -> None:
    stream, given = Stream(), []

    def start(write_batch: WriteBatch) -> Query:
        given.append(write_batch)
        return Query(runs=True)

    def stop() -> None:
        stream.events.stopping.set()
        stream.events.wake.set()

    stopper = threading.Timer(0.1, stop)
    stopper.start()
    assert stream.run(start) is ExitStatus.FINE
    stopper.join()
    frame: Any = None
    with pytest.raises(Stop, match="stream 'copy' is stopping"):
        given[0](frame, 8)


def test_a_stream_that_is_stopped_begins_nothing() -> None:
    stream = Stream()
    stream.events.stopping.set()
    assert stream.run(lambda _: pytest.fail("a query was started")) is ExitStatus.FINE


def test_a_lost_lease_ends_it_whatever_the_query_says() -> None:
    stream = Stream()

    def lose() -> None:
        stream.leased.lose(Fenced("another has it"))

    loser = threading.Timer(0.1, lose)
    loser.start()
    assert stream.run(lambda _: Query(RuntimeError("stopped in the midst"), runs=True)) is ExitStatus.LOST
    loser.join()
    assert stream.listener.exit_statuses == ["another has it"]


def test_a_run_after_a_lost_lease_looks_at_its_query_now_and_then() -> None:
    stream = Stream()

    def lose_at_once(_write_batch: WriteBatch) -> Query:
        stream.leased.lose(Fenced("another has it"))
        return Query(runs=True)

    assert stream.run(lose_at_once) is ExitStatus.LOST
    stream.looks = 0
    query = Query(runs=True)
    ender = threading.Timer(0.5, query.stop)
    ender.start()
    began_s = time.monotonic()
    assert stream.run(lambda _: query) is ExitStatus.FINE
    ender.join()
    assert stream.looks <= 2 + (time.monotonic() - began_s) / leased_stream.POLL_EVERY_S


def test_a_wake_that_comes_while_the_query_runs_is_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a checkpoint's lock, whose owner ends after it has given its lease back."""
    stream = Stream()
    is_set: list[bool] = []

    def look(_query: Any) -> None:
        is_set.append(stream.events.wake.is_set())
        stream.events.stopping.set()

    def start(_write_batch: WriteBatch) -> Query:
        stream.events.wake.set()
        return Query(runs=True)

    monkeypatch.setattr(stream, "_look", look)
    assert stream.run(start) is ExitStatus.FINE
    assert is_set == [False, False]


def test_the_bridge_reports_no_failure_of_a_batch_a_second_time(caplog: pytest.LogCaptureFixture) -> None:
    bridge = logging.getLogger("py4j.clientserver")
    hold_back_traces()
    for error in (Stop("stream 'copy' is stopping"), ValueError("a function failed")):
        try:
            raise error
        except Exception:
            bridge.exception("There was an exception while executing the Python Proxy on the Python Side.")
    bridge.error("the connection is lost")
    assert [record.getMessage() for record in caplog.records] == ["the connection is lost"]


@pytest.mark.parametrize("failure", [StreamingQueryException(JAVA_TEXT), PySparkException(JAVA_TEXT)])
def test_a_failure_in_java_is_one_line_that_names_the_innermost_cause(
    failure: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = Stream()
    assert stream.run(lambda _: Query(failure)) is ExitStatus.FAILED
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "failed" in line]
    assert "Job aborted. Cause: java.io.IOException: No space left on device (Spark's log has its traces.)" in line
    assert "DAGScheduler.scala" not in line


def test_a_fault_of_ours_keeps_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    stream = Stream()
    assert stream.run(lambda _: Query(ValueError("a function failed"))) is ExitStatus.FAILED
    assert "ValueError: a function failed" in capsys.readouterr().out


def test_a_failure_beside_a_stop_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    stream = Stream()

    def start(_write: WriteBatch) -> Query:
        stream.events.stopping.set()
        return Query(RuntimeError("no room left"), runs=True)

    assert stream.run(start) is ExitStatus.FINE
    assert "was stopped while it failed" in capsys.readouterr().out
