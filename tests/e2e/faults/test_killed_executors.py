"""Spark's executors, and their Python workers, killed in each phase of a write: each row once, nothing is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from lakelog.testing.history import Write
from tests.e2e.faults.cluster_program import PHASES, ROWS, count_rows
from tests.e2e.faults.lab import Lab
from tests.e2e.faults.writer_process import KEYED
from tests.support.repository import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SOME = (
    ("written:executor", "committing:executor"),
    ("shuffled:executor", "writing:worker"),
    ("reading:executor", "written:worker"),
    ("writing:executor", "ended:worker"),
)
"""By seed: the faults of the writes of one driver."""


def test_all_phases_have_their_turn() -> None:
    assert {fault.partition(":")[0] for faults in SOME for fault in faults} == set(PHASES)


@pytest.mark.parametrize("seed", range(len(SOME)))
def test_an_executor_that_dies_costs_no_row_and_doubles_none(lab: Lab, tmp_path: Path, seed: int) -> None:
    """A task that had died wrote files. No snapshot names them, and the commit deletes them."""
    faults = SOME[seed]
    program = str(Path(__file__).with_name("cluster_program.py"))
    log = tmp_path / "program.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, program, lab.stack.target, str(tmp_path), KEYED, *faults],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "LAB": str(tmp_path),
                "SPARK_LOCAL_DIRS": str(tmp_path),
                # local-cluster starts its workers by scripts below SPARK_HOME.
                "SPARK_HOME": str(Path(pyspark.__file__).parent),
            },
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        assert process.wait(300) == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = log.read_text()
    for number, fault in enumerate(faults, 1):
        (in_files,) = map(int, re.findall(rf"WRITTEN {number} {fault} False True (\d+)", said))
        if fault.startswith(("written", "ended")):
            # Control: the dead task had written all of its files, so a commit of all files would double its rows.
            assert in_files > ROWS * number, said
    writes = [
        Write("w", number, {KEYED: tuple(f"{number}.{row}" for row in range(ROWS))}, "acknowledged")
        for number in range(1, len(faults) + 1)
    ]
    assert lab.check(writes) == []
    # Control: the check finds rows that it is not to expect.
    assert lab.check(writes[:-1])
    # The commit deletes what dead tasks had written.
    assert lab.orphans() == {}
    with lab.connect() as catalog:
        table = catalog.table(KEYED)
        assert table.scan().to_arrow().num_rows == ROWS * len(faults)
        assert count_rows(Path(table.location.removeprefix("file://"))) == ROWS * len(faults)
