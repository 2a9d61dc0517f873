"""What a pipeline's service does before Spark begins: who is away for a moment is waited for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, Unavailable
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
            check=lambda: None,
            start_spark=self.start_spark,
            warm_up=lambda _: None,
            make_writer=parts.make_writer,
            lease=parts,
            progress=parts,
            events=Events(),
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

    def start_spark(self) -> Any:
        return SimpleNamespace(sparkContext=self)

    def plan(self, _batch_id: int) -> bool:
        raise InvalidArgument("so far")

    def running(self) -> None: ...

    def acquire(self, **_: Any) -> bool:
        return True

    def release(self) -> None: ...

    def check(self) -> None: ...

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
