"""How many pieces go to Spark together, whatever cluster it is."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
import structlog

from compactor.bucket_work import DonePiece, Piece
from compactor.duty import Control
from compactor.rewriting import MAX_PIECES_TOGETHER
from compactor.spark_rewriting import SparkRewriter
from lakelog.clock import SystemClock
from lakelog.storage.append_rewrite import FileRewrite
from lakelog.storage.live_file import LiveFile

FILE = LiveFile(7, "data/a/b.parquet", b"", 0, 0, 1, 0, 10, None, None, 0, 1, 1, 0, 1000)


class Session:
    """As much of a session as tells how large its cluster is."""

    def __init__(self, cores: int) -> None:
        self.sparkContext = self
        self.defaultParallelism = cores


@pytest.mark.parametrize(("cores", "expected"), [(2, 4), (250, MAX_PIECES_TOGETHER), (251, 500), (5000, 500)])
def test_a_batch_is_never_larger_than_a_commit_takes(cores: int, expected: int) -> None:
    rewriter = SparkRewriter(lambda: cast(Any, Session(cores)), SystemClock(), structlog.get_logger(), little_bytes=0)
    batches: list[int] = []

    def run(spark: object, info: object, attempt_id: str, batch: list[Piece], control: Control) -> list[DonePiece]:
        batches.append(len(batch))
        return [DonePiece(piece, ()) for piece in batch]

    rewriter._run = run  # type: ignore[method-assign]
    pieces = [Piece(FileRewrite(f"compact-{number:05d}", (FILE,)), "test") for number in range(1200)]
    finished = rewriter.rewrite_some(cast(Any, None), cast(Any, None), "a", pieces, Control(threading.Event()))
    assert batches[0] == expected
    assert 0 < len(finished) <= MAX_PIECES_TOGETHER
    assert len(finished) + len(pieces) == 1200
