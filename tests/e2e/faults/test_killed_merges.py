"""Writers killed while they merge the small files of a commit: only files of an open attempt are left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from lakelog.sdk.tables.table import Table
from tests.e2e.faults.lab import Lab
from tests.e2e.faults.merging_process import MERGED, OPTIONS, ROWS, SCHEMA, STEPS, write_by_sdk
from tests.support.forked import FORKS, preload
from tests.support.repository import ROOT

pytestmark = pytest.mark.e2e

preload("tests.e2e.faults.merging_process")


def run_sdk(lab: Lab, step: str) -> int | None:
    process = FORKS.Process(target=write_by_sdk, args=(lab.stack.target, step), daemon=True)
    process.start()
    process.join(60)
    code = process.exitcode
    process.kill()
    return code


def run_spark(lab: Lab, folder: Path, step: str) -> tuple[int, str]:
    command = [sys.executable, str(Path(__file__).with_name("merging_process.py")), lab.stack.target, str(folder), step]
    log = folder / "program.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=output, stderr=output, start_new_session=True
        )
    try:
        code = process.wait(200)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return code, log.read_text()


def stray_attempts(lab: Lab, table: Table) -> dict[str, str]:
    """States of the attempts that have files which no snapshot has, by id."""
    root = Path(table.location.removeprefix("file://"))
    live = set(table.files().column("path").to_pylist())
    stray = {path for path in root.rglob("*") if path.is_file() and path.relative_to(root).as_posix() not in live}
    states = {}
    with psycopg.connect(lab.stack.database_url.replace("+psycopg", "")) as connection:
        for attempt in {path.parent.name for path in stray}:
            row = connection.execute("SELECT state FROM attempt WHERE attempt_id = %s::uuid", [attempt]).fetchone()
            states[attempt] = str(row[0]) if row else "unknown"
    return states


def check_written(lab: Lab, table: Table, files: int) -> None:
    assert sorted(table.scan().to_arrow().column("k").to_pylist()) == list(range(ROWS))
    assert table.snapshots().num_rows == 1
    assert table.files().num_rows == files
    assert set(stray_attempts(lab, table).values()) <= {"open", "aborted"}


@pytest.mark.parametrize("step", STEPS)
def test_a_client_that_is_killed(lab: Lab, step: str) -> None:
    with lab.connect() as catalog:
        table = catalog.create_table(MERGED, SCHEMA, primary_key=["k"], options=OPTIONS)
        assert run_sdk(lab, step) == -signal.SIGKILL, "the fault did not take effect"
        assert table.snapshots().num_rows == 0
        assert list(stray_attempts(lab, table).values()) == ["open"]
        assert run_sdk(lab, "") == 0
        check_written(lab, table, files=3)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_driver_program_that_is_killed(lab: Lab, tmp_path: Path) -> None:
    with lab.connect() as catalog:
        table = catalog.create_table(MERGED, SCHEMA, options={"precommit-compact": "true"})
        code, log = run_spark(lab, tmp_path, "first deleted")
        assert code == -signal.SIGKILL, log
        assert table.snapshots().num_rows == 0
        assert list(stray_attempts(lab, table).values()) == ["open"]
        rows = pa.table({"k": range(ROWS), "v": [f"value {row}" for row in range(ROWS)]}, schema=SCHEMA)
        assert not table.append(rows, writer="w", identifier=1).already_applied
        check_written(lab, table, files=1)
