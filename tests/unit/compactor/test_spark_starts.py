"""A Spark that cannot be started fails no job: they are done in the process until it can."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
import structlog

from compactor.bucket_work import DonePiece, Piece
from compactor.duty import Control
from compactor.spark_rewriting import START_PAUSE_S, SparkRewriter
from lakelog.clock import SystemClock
from lakelog.errors import InternalError
from lakelog.storage.append_rewrite import FileRewrite
from lakelog.storage.live_file import LiveFile

FILE = LiveFile(7, "data/a/b.parquet", b"", 0, 0, 1, 0, 10, None, None, 0, 1, 1, 0, 1000)


class SettableClock(SystemClock):
    """Stands where it is put."""

    now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s


class Here:
    """Instead of rewriting in this process: counts the pieces."""

    def __init__(self) -> None:
        self.pieces = 0

    def rewrite_some(
        self, store: Any, info: Any, attempt_id: str, pieces: list[Piece], control: Any
    ) -> list[DonePiece]:
        done = [DonePiece(piece, ()) for piece in pieces]
        self.pieces += len(pieces)
        pieces.clear()
        return done


class Session:
    """As much of a session as tells how large its cluster is."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.defaultParallelism = 2


@pytest.mark.parametrize("error", [InternalError("Java for Spark ended"), RuntimeError("no master answers")])
def test_jobs_are_done_in_the_process_until_spark_starts(error: Exception) -> None:
    clock, here, starts, is_there = SettableClock(), Here(), [], False

    def start() -> Any:
        starts.append(clock.now_s)
        if not is_there:
            raise error
        return Session()

    rewriter = SparkRewriter(start, clock, structlog.get_logger(), little_bytes=0)
    rewriter._here = cast(Any, here)
    sent: list[int] = []

    def run(spark: object, info: object, attempt_id: str, batch: list[Piece], control: Control) -> list[DonePiece]:
        sent.append(len(batch))
        return [DonePiece(piece, ()) for piece in batch]

    rewriter._run = run  # type: ignore[method-assign]

    def rewrite() -> int:
        pieces = [Piece(FileRewrite("compact-00001", (FILE,)), "test")]
        control = Control(threading.Event())
        return len(rewriter.rewrite_some(cast(Any, None), cast(Any, None), "a", pieces, control))

    # A job after the other is done, and Spark is not started for each of them.
    assert [rewrite() for _ in range(3)] == [1, 1, 1]
    assert (here.pieces, sent, len(starts)) == (3, [], 1)
    clock.now_s += START_PAUSE_S
    assert rewrite() == 1
    assert (here.pieces, len(starts)) == (4, 2)
    # The cluster is back.
    is_there = True
    clock.now_s += START_PAUSE_S
    assert [rewrite() for _ in range(2)] == [1, 1]
    assert (here.pieces, sent, len(starts)) == (4, [1, 1], 3)
