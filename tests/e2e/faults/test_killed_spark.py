"""A Spark driver killed in the middle of a write and of a stream, and started again: each row once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.testing.history import Write
from tests.e2e.faults.lab import Lab
from tests.e2e.faults.spark_program import WRITTEN_ROWS
from tests.e2e.faults.writer_process import KEYED, LOG, SCHEMA
from tests.support.repository import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

BATCHES = 8


@contextmanager
def program(lab: Lab, folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """The program, with all that it started; killed at the end of the block."""
    command = [sys.executable, str(Path(__file__).with_name("spark_program.py")), lab.stack.target, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    with (folder / "program.log").open("a") as log:
        process = subprocess.Popen(
            [*command, KEYED, LOG], env=environment, stdout=log, stderr=log, start_new_session=True, text=True
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def values(batch: int) -> tuple[str, ...]:
    return tuple(f"s.{batch}.{row}" for row in range(10))


def test_a_driver_that_is_killed_and_started_again_writes_each_row_once(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for batch in range(BATCHES):
        rows = pa.table({"k": range(batch * 10, batch * 10 + 10), "v": list(values(batch))}, schema=SCHEMA)
        pq.write_table(rows, tmp_path / "in" / f"{batch}.parquet")
        os.utime(tmp_path / "in" / f"{batch}.parquet", (batch + 1, batch + 1))

    with program(lab, tmp_path, KILL_IN_TASK="1") as first:
        assert first.wait(200) == -signal.SIGKILL, (tmp_path / "program.log").read_text()
    assert lab.seen() == []
    assert set(lab.orphans().values()) == {"open"}, "the fault came before the files, or after the commit"

    def committed() -> int:
        with lab.connect() as catalog:
            return catalog.table(LOG).snapshots().num_rows

    with program(lab, tmp_path) as second:
        lab.wait_for(lambda: committed() >= 2, 200, "the stream commits")
        assert second.poll() is None
    done = committed()
    assert done < BATCHES, "killed too late"

    with program(lab, tmp_path) as third:
        assert third.wait(200) == 0, (tmp_path / "program.log").read_text()
    assert (tmp_path / "program.log").read_text().count("WRITTEN False") == 1
    assert (tmp_path / "program.log").read_text().count("WRITTEN True") == 1
    with lab.connect() as catalog:
        (stream,) = set(catalog.table(LOG).snapshots().column("writer").to_pylist())
    writes = [Write("w", 1, {KEYED: tuple(f"w.{row}" for row in range(WRITTEN_ROWS))}, "acknowledged")]
    writes += [Write(stream, batch, {LOG: values(batch)}, "acknowledged") for batch in range(BATCHES)]
    assert lab.check(writes) == []
    assert set(lab.orphans().values()) <= {"open", "aborted"}
