"""What a pipeline's service does before its batches, between them, and while it waits for its lease."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from lakelog.clock import SystemClock
from lakelog.errors import DataCorrupted, Fenced, InternalError, InvalidArgument, LakelogError, NotFound, Unavailable
from lakelog.serving.streams import leased_stream
from lakelog.serving.streams.leased_stream import Events
from writer.exit_status import ExitStatus
from writer.pipeline.spec import BadRecords, Mode, Pipeline
from writer.service import Service

from .topics import make_source


class World:
    """Fails as often as a test says, where it says."""

    def __init__(self, folder: Path, max_unavailable_s: float, **failures: int) -> None:
        self.failures = failures
        self.reported: list[str] = []
        self.exit_status: str | None = None
        self.events = Events()
        self.steps: list[str] = []
        self.mismatch: LakelogError | None = None
        self.spark_failure: LakelogError | None = None
        self.is_held = False
        self.is_replaced = False
        self.cancelled = 0
        pipeline = Pipeline(
            folder / "p.yaml",
            "p",
            "lab.copy",
            None,
            make_source(),
            Mode.UPSERT,
            None,
            1.0,
            folder,
            BadRecords.STOP,
            None,
        )
        parts: Any = self
        self.service = Service(
            pipeline,
            check=self.check_pipeline,
            start_spark=self.start_spark,
            warm_up=lambda _: self.steps.append("warm"),
            make_writer=parts.make_writer,
            lease=parts,
            progress=parts,
            events=self.events,
            max_unavailable_s=max_unavailable_s,
            wait_for_lease=True,
            after_restore=False,
            clock=SystemClock(),
            log=structlog.get_logger(),
        )

    epoch = 1

    def make_writer(self) -> Any:
        self.fail("make")
        info = SimpleNamespace(table_uuid="1" * 32)
        checkpoint = SimpleNamespace(read_totals=lambda: None, last_done=lambda: -1, check_progress=lambda *_: None)
        metastore = SimpleNamespace(get_writer_progress=lambda *_: SimpleNamespace(last_identifier=None))
        source = SimpleNamespace(refresh=lambda *_: self.fail("refresh"), plan=self.plan, close=lambda: None)
        return SimpleNamespace(info=info, checkpoint=checkpoint, metastore=metastore, source=source)

    def fail(self, where: str) -> None:
        if self.failures.get(where, 0):
            self.failures[where] -= 1
            raise Unavailable(f"{where}: away")

    def check_pipeline(self) -> Any:
        self.steps.append("check")
        if self.mismatch is not None:
            raise self.mismatch

    def start_spark(self) -> Any:
        self.steps.append("start")
        if self.spark_failure is not None:
            raise self.spark_failure
        return SimpleNamespace(sparkContext=self)

    def cancelAllJobs(self) -> None:  # noqa: N802 -- as Spark's context.
        self.cancelled += 1

    def plan(self, _batch_id: int) -> bool:
        raise InvalidArgument("so far")

    def running(self) -> None: ...

    def acquire(self, *, on_wait: Callable[[], None], **_: Any) -> bool:
        self.steps.append("take")
        if self.is_held:
            on_wait()
        return not self.events.stopping.is_set()

    def release(self) -> None: ...

    def check(self) -> None:
        if self.is_replaced:
            raise Fenced("another has it")

    def lead(self, _epoch: int) -> None: ...

    def begin(self, *_: Any) -> None: ...

    def failed_for_now(self, error: BaseException) -> None:
        self.reported.append(str(error))

    def ended(self, error: BaseException | None) -> None:
        self.exit_status = str(error)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leased_stream, "_FIRST_PAUSE_S", 0.01)


def test_who_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    """As the brokers of a machine that starts with the pipeline's."""
    world = World(tmp_path, 60.0, make=2, refresh=1)
    assert world.service.run() is ExitStatus.INVALID
    assert world.reported == ["make: away", "make: away", "refresh: away"]
    assert world.exit_status == "so far"


def test_but_not_for_ever(tmp_path: Path) -> None:
    world = World(tmp_path, 0.05, make=1000)
    assert world.service.run() is ExitStatus.UNAVAILABLE
    assert world.exit_status == "make: away"


class Batches(World):
    """A source with batches of which each leaves so much behind it, and then nothing; ends when it would pause."""

    def __init__(self, folder: Path, *left: int | None) -> None:
        super().__init__(folder, 60.0)
        self.left = list(left)
        self.done: list[int] = []
        self.pauses: list[float] = []
        self.on_pause: Callable[[], None] = lambda: None
        self.events.wake.wait = self.pause  # type: ignore[method-assign]

    def pause(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0.0)
        self.on_pause()
        if not self.left:
            self.events.stopping.set()
        return True

    def make_writer(self) -> Any:
        made = super().make_writer()
        made.checkpoint.last_done = lambda: len(self.done) - 1
        made.checkpoint.begin = made.checkpoint.end = made.source.forget = lambda _: None
        made.source.report_changes = lambda _: None
        made.write = self.write
        return made

    def plan(self, batch_id: int) -> bool:
        assert batch_id == len(self.done)
        if self.left and self.left[0] is None:
            self.left.pop(0)
            return False
        return bool(self.left)

    def write(self, _spark: Any, batch_id: int) -> Any:
        self.done.append(batch_id)
        return SimpleNamespace(planned=SimpleNamespace(after=SimpleNamespace(lag=self.left.pop(0))))

    def batch_done(self, _done: Any) -> None: ...


def test_a_backlog_is_read_without_a_pause_and_what_trickles_in_waits_for_the_next_poll(tmp_path: Path) -> None:
    world = Batches(tmp_path, 2, 1, 0, 0, None, 0)
    assert world.service.run() is ExitStatus.FINE
    assert world.done == [0, 1, 2, 3, 4]
    # After the third, the fourth, the poll that found nothing, and the last one.
    assert world.pauses == [1.0] * 4


def test_starts_spark_before_it_takes_the_lease_and_warms_it_only_while_it_waits(tmp_path: Path) -> None:
    for is_held in (False, True):
        world = Batches(tmp_path)
        world.is_held = is_held
        assert world.service.run() is ExitStatus.FINE
        assert world.steps == ["check", "start", "take", *(["warm"] if is_held else [])]


def test_a_warm_up_that_fails_does_not_end_the_wait(tmp_path: Path) -> None:
    """As where a Python process of Spark does not start in time."""
    world = Batches(tmp_path, 0)
    world.is_held = True

    def warm_up(_: Any) -> None:
        raise RuntimeError("Python worker failed to connect back")

    world.service._warm_up = warm_up
    assert world.service.run() is ExitStatus.FINE
    assert (world.steps, world.done) == (["check", "start", "take"], [0])


def test_what_does_not_fit_is_reported_under_the_lease_and_starts_no_spark(tmp_path: Path) -> None:
    world = Batches(tmp_path)
    world.mismatch = NotFound("no such table")
    world.service._make_writer = world.check_pipeline
    assert world.service.run() is ExitStatus.MISSING
    assert world.steps == ["check", "take", "check"]
    assert world.exit_status == "no such table"


def test_a_metastore_that_is_away_keeps_spark_from_nothing(tmp_path: Path) -> None:
    world = Batches(tmp_path)
    world.mismatch = Unavailable("away")
    assert world.service.run() is ExitStatus.FINE
    assert world.steps == ["check", "start", "take"]


def test_one_that_does_not_wait_requests_its_lease_first(tmp_path: Path) -> None:
    world = Batches(tmp_path)
    world.service._wait_for_lease = False
    assert world.service.run() is ExitStatus.FINE
    assert world.steps == ["take", "start"]


def test_on_a_cluster_spark_starts_under_the_lease(tmp_path: Path) -> None:
    """Its executors would take room from the instance that works."""
    world = Batches(tmp_path)
    world.service._warm_up = None
    world.is_held = True
    assert world.service.run() is ExitStatus.FINE
    assert world.steps == ["take", "start"]


def test_who_cannot_start_spark_does_not_take_the_lease(tmp_path: Path) -> None:
    world = Batches(tmp_path)
    world.spark_failure = InvalidArgument("no Java")
    assert world.service.run() is ExitStatus.INVALID
    assert world.steps == ["check", "start"]


def test_a_lost_lease_ends_the_jobs_of_spark(tmp_path: Path) -> None:
    world = Batches(tmp_path, 0)
    world.service.lose(Fenced("before Spark runs"))
    world.events.lost.clear()
    write = world.write

    def lose_and_write(_spark: Any, batch_id: int) -> Any:
        world.service.lose(Fenced("another has it"))
        return write(None, batch_id)

    world.write = lose_and_write  # type: ignore[method-assign]
    assert world.service.run() is ExitStatus.FENCED
    assert world.cancelled == 1


@pytest.mark.parametrize("was_replaced", [True, False])
@pytest.mark.parametrize("where", ["plan", "begin", "end", "forget"])
def test_who_was_replaced_says_so_and_not_that_the_checkpoint_was_changed(
    tmp_path: Path, where: str, was_replaced: bool
) -> None:
    """As one that was frozen while another did so many batches that the log of its last one is gone."""
    world = Batches(tmp_path, 0)
    make_writer = world.make_writer

    def fail(_batch_id: int) -> Any:
        world.is_replaced = was_replaced
        raise DataCorrupted("no log of batch 0")

    def make() -> Any:
        made = make_writer()
        part = made.source if where in ("plan", "forget") else made.checkpoint
        setattr(part, where, fail)
        return made

    world.service._make_writer = make
    assert world.service.run() is (ExitStatus.FENCED if was_replaced else ExitStatus.FAILED)
    assert world.exit_status == ("another has it" if was_replaced else "no log of batch 0")


def test_without_its_spark_neither_one_that_waits_nor_one_that_works_goes_on(tmp_path: Path) -> None:
    ended = InternalError("Java has ended")
    waiting = Batches(tmp_path)
    waiting.is_held = True
    waiting.service._warm_up = lambda _: waiting.service.fail(ended)
    assert waiting.service.run() is ExitStatus.FAILED
    assert (waiting.steps, waiting.exit_status) == (["check", "start", "take"], "Java has ended")
    working = Batches(tmp_path, 0, 0)
    working.on_pause = lambda: working.service.fail(ended)
    assert working.service.run() is ExitStatus.FAILED
    assert (working.done, working.exit_status) == ([0], "Java has ended")
