"""Keeping a lease, and the command line."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from lakelog.clock import SystemClock
from lakelog.errors import (
    CommitConflict,
    Fenced,
    InvalidArgument,
    LakelogError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from lakelog.format.jobs.work import LeaseGrant
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.streams.checkpoint_lock import FILE_NAME, CheckpointLock
from lakelog.serving.streams.exit_status import may_pass
from lakelog.serving.streams.spark_process import keeping_interrupts
from writer.config import Config, parse_config
from writer.exit_status import ExitStatus, to_exit_status


class Leases:
    """The part of a metastore that grants leases."""

    def __init__(self) -> None:
        self.free_after = 0
        self.away_for = 0
        self.failure: LakelogError | None = None
        self.refusal: LakelogError | None = None
        self.renewals = 0
        self.released: list[int] = []

    def acquire_lease(self, _name: str, _holder: str, _duration_ms: int) -> LeaseGrant:
        if self.away_for > 0:
            self.away_for -= 1
            raise Unavailable("No metastore answers at here:1.")
        if self.free_after > 0:
            self.free_after -= 1
            return LeaseGrant(False, 1, "other", 10)
        return LeaseGrant(True, 2, "me", 30)

    def renew_lease(self, _name: str, epoch: int, _duration_ms: int) -> int:
        assert epoch == 2
        self.renewals += 1
        if self.failure is not None:
            raise self.failure
        return 30

    def release_lease(self, _name: str, epoch: int) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.released.append(epoch)
        if epoch == 1:
            self.free_after = 0


class Kept:
    """A renewer over such a metastore, with leases of 30 ms."""

    def __init__(self, max_unavailable_s: float = 60.0, lock: CheckpointLock | None = None) -> None:
        self.leases = Leases()
        self.lost: list[LakelogError] = []
        self.was_lost = threading.Event()
        metastore: Any = self.leases
        self.renewer = LeaseRenewer(
            metastore, "pipeline/p", "me", duration_s=0.03, max_unavailable_s=max_unavailable_s, clock=SystemClock(),
            log=structlog.get_logger(), on_lost=self._lose, lock=lock,
        )  # fmt: skip

    def _lose(self, error: LakelogError) -> None:
        self.lost.append(error)
        self.was_lost.set()


def test_waits_for_the_lease_renews_it_and_gives_it_back() -> None:
    kept = Kept()
    kept.leases.free_after = 2
    assert kept.renewer.acquire(wait=True, stopping=threading.Event())
    assert (kept.renewer.epoch, kept.renewer.fence.lease) == (2, "pipeline/p")
    threading.Event().wait(0.1)
    kept.renewer.release()
    assert kept.leases.renewals >= 3
    assert kept.leases.released == [2]
    assert kept.lost == []


@pytest.fixture
def all_calls() -> None:
    """Whatever tests of services in this process have set up, logs are told again."""
    structlog.reset_defaults()


@pytest.mark.usefixtures("all_calls")
def test_reports_each_try_at_a_metastore_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.serving.lease._RETRY_EVERY_S", 0.01)
    kept = Kept()
    kept.leases.away_for = 2
    with structlog.testing.capture_logs() as reported:
        assert kept.renewer.acquire(wait=True, stopping=threading.Event())
    kept.renewer.release()
    assert [(line["event"], line["log_level"], line["for_another_s"], line["error"]) for line in reported[:-1]] == [
        ("metastore not reachable, trying again", "warning", 60, "No metastore answers at here:1.")
    ] * 2


def test_knows_whether_the_metastore_answers_also_while_another_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.serving.lease._RETRY_EVERY_S", 0.01)
    kept, stopping = Kept(), threading.Event()
    seen: list[bool] = []

    def request(request_now: Callable[[], LeaseGrant]) -> LeaseGrant:
        seen.append(kept.renewer.is_answered)
        return request_now()

    kept.leases.away_for, kept.leases.free_after = 1, 1
    assert kept.renewer.acquire(wait=True, stopping=stopping, in_turn=request)
    # Before the first answer, after none, after that of another holder.
    assert seen == [False, False, True]
    kept.leases.failure = Unavailable("away")
    wait_until(lambda: not kept.renewer.is_answered)
    kept.leases.failure = None
    wait_until(lambda: kept.renewer.is_answered)
    kept.renewer.release()


def wait_until(what: Callable[[], bool]) -> None:
    for _ in range(500):
        if what():
            return
        threading.Event().wait(0.01)
    pytest.fail("It did not happen within five seconds.")


def test_does_not_wait_if_configured_so() -> None:
    kept = Kept()
    kept.leases.free_after = 1
    with pytest.raises(Unavailable, match="'other' runs this pipeline now") as caught:
        kept.renewer.acquire(wait=False, stopping=threading.Event())
    assert to_exit_status(caught.value) is ExitStatus.HELD


def test_stops_waiting_when_the_pipeline_stops() -> None:
    kept = Kept()
    kept.leases.free_after = 1 << 30
    stopping = threading.Event()
    threading.Timer(0.05, stopping.set).start()
    assert not kept.renewer.acquire(wait=True, stopping=stopping)


def dead_holder(folder: Path, epoch: int, holder: str = "other") -> CheckpointLock:
    """The lock of a checkpoint whose last process had this epoch and name."""
    lock = CheckpointLock(folder)
    lock.lock(lambda: None)
    lock.record("pipeline/p", epoch, holder)
    return lock


@pytest.mark.parametrize("wait", [True, False])
def test_the_lease_of_a_dead_instance_need_not_run_out(tmp_path: Path, wait: bool) -> None:
    kept = Kept(lock=dead_holder(tmp_path, 1))
    kept.leases.free_after = 1 << 30
    assert kept.renewer.acquire(wait=wait, stopping=threading.Event())
    assert kept.leases.released == [1]
    assert json.loads((tmp_path / FILE_NAME).read_text())["epoch"] == 2
    kept.renewer.release()


@pytest.mark.parametrize(("epoch", "holder"), [(3, "other"), (1, "another")])
def test_but_that_of_any_other_one_must(tmp_path: Path, epoch: int, holder: str) -> None:
    """The control: the lease has another epoch than the dead one had, or in a new database the same by chance."""
    kept = Kept(lock=dead_holder(tmp_path, epoch, holder))
    kept.leases.free_after = 1 << 30
    with pytest.raises(Unavailable, match="'other' runs this pipeline now"):
        kept.renewer.acquire(wait=False, stopping=threading.Event())
    assert kept.leases.released == []


def test_a_lease_of_a_dead_instance_of_another_principal_is_waited_for(tmp_path: Path) -> None:
    kept = Kept(lock=dead_holder(tmp_path, 1))
    kept.leases.free_after = 3
    kept.leases.refusal = PermissionDenied("another principal holds it")
    assert kept.renewer.acquire(wait=True, stopping=threading.Event())
    kept.leases.refusal = None
    kept.renewer.release()


def test_prepares_once_while_it_waits_and_not_if_the_lease_is_free() -> None:
    kept, prepared = Kept(), []
    kept.leases.free_after = 3
    assert kept.renewer.acquire(wait=True, stopping=threading.Event(), on_wait=lambda: prepared.append(1))
    assert prepared == [1]
    kept.renewer.release()
    kept = Kept()
    assert kept.renewer.acquire(wait=True, stopping=threading.Event(), on_wait=lambda: pytest.fail("nothing to wait"))
    kept.renewer.release()


def test_a_lease_that_another_took_is_lost() -> None:
    kept = Kept()
    kept.renewer.acquire(wait=True, stopping=threading.Event())
    kept.leases.failure = Fenced("another has it")
    assert kept.was_lost.wait(5)
    assert to_exit_status(kept.lost[0]) is ExitStatus.FENCED
    kept.renewer.release()


def test_a_metastore_that_is_away_for_a_while_is_borne() -> None:
    kept = Kept()
    kept.renewer.acquire(wait=True, stopping=threading.Event())
    kept.leases.failure = Unavailable("away")
    assert not kept.was_lost.wait(0.1)
    kept.leases.failure = None
    kept.renewer.release()
    assert kept.lost == []


def test_but_not_for_ever() -> None:
    kept = Kept(max_unavailable_s=0.05)
    kept.renewer.acquire(wait=True, stopping=threading.Event())
    kept.leases.failure = Unavailable("away")
    assert kept.was_lost.wait(5)
    assert to_exit_status(kept.lost[0]) is ExitStatus.UNAVAILABLE
    kept.renewer.release()


@pytest.mark.parametrize(
    ("error", "exit_status", "passes"),
    [
        (Unavailable("x"), ExitStatus.UNAVAILABLE, True),
        (OutcomeUnknown("x"), ExitStatus.UNAVAILABLE, True),
        (Fenced("x"), ExitStatus.FENCED, False),
        (InvalidArgument("x"), ExitStatus.INVALID, False),
        (NotFound("x"), ExitStatus.MISSING, False),
        (InvalidArgument("x", reason="BAD_RECORD"), ExitStatus.BAD_RECORD, False),
        (InvalidArgument("x", reason="CHECKPOINT_MISFIT"), ExitStatus.CHECKPOINT, False),
        (CommitConflict("x", reason="IDENTIFIER_GAP"), ExitStatus.CHECKPOINT, False),
        (CommitConflict("x"), ExitStatus.FAILED, False),
        (ResourceExhausted("x", reason="DISK_FULL"), ExitStatus.FAILED, True),
        (ValueError("x"), ExitStatus.FAILED, False),
    ],
)
def test_endings(error: Exception, exit_status: ExitStatus, passes: bool) -> None:
    assert to_exit_status(error) is exit_status
    assert may_pass(error) is passes


def test_arguments_go_before_variables() -> None:
    config = parse_config(
        ["run", "p.yaml", "--target", "a:1", "--lease-seconds", "5", "--spark-conf", "spark.x=y=z"],
        {
            "LAKELOG_TARGET": "b:2",
            "LAKELOG_WRITER_PATIENCE_SECONDS": "7",
            "LAKELOG_WRITER_NO_WAIT": "1",
            "LAKELOG_SPARK_CONF": "spark.a=1;\n spark.b=2; ",
        },
    )
    assert isinstance(config, Config)
    assert (config.command, config.pipeline_files, config.target) == ("run", (Path("p.yaml"),), "a:1")
    assert (config.lease_s, config.max_unavailable_s, config.no_wait, config.metrics_port) == (5.0, 7.0, True, None)
    assert config.spark_conf == {"spark.a": "1", "spark.b": "2", "spark.x": "y=z"}


def test_where_spark_logs_is_an_argument_or_its_variable() -> None:
    environment = {"LAKELOG_SPARK_LOG": "/logs/spark.log"}
    for arguments, file in (([], "/logs/spark.log"), (["--spark-log", "-"], "-")):
        config = parse_config(["run", "p.yaml", *arguments], environment)
        assert isinstance(config, Config)
        assert config.spark_log_file == file


def test_ctrl_c_stays_with_the_service_when_spark_takes_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    with keeping_interrupts():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--lease-seconds", "0"], "--lease-seconds=0 must be a number from 1 to 3600"),
        (["--metrics-port", "x"], "--metrics-port=x"),
        (["--log-level", "loud"], "--log-level=loud must be one of debug"),
        (["--spark-conf", "x"], "--spark-conf x: write it as"),
    ],
)
def test_wrong_arguments(arguments: list[str], part: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_config(["run", "p.yaml", *arguments], {})
    assert part in caught.value.message


def test_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["run", "--help"], ["check", "--help"]):
        with pytest.raises(SystemExit) as ended:
            parse_config(arguments, {})
        assert ended.value.code == 0
        assert "another instance has taken over" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        parse_config(["walk"], {})
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
