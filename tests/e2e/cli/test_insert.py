"""`lakelog insert` as a process that is killed in the middle."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.e2e.cli.up import PROGRAM, wait_until
from tests.support.forked import ForkedProcess, preload, run_forked
from tests.support.repository import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

preload("lakelog.cli.commands.rows.insert_files")

_FILES = 150
_ROWS = 100


def count_settled(log: Table) -> int:
    """How many snapshots there are once no commit comes any more: one may be on its way when its sender is killed."""
    known, found = -1, log.snapshots().num_rows
    while found != known:
        time.sleep(0.5)
        known, found = found, log.snapshots().num_rows
    return found


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_job_that_ends_in_the_middle_goes_on_with_each_file_once(
    stack: EmbeddedStack, catalog: Catalog, tmp_path: Path, sent: signal.Signals
) -> None:
    for number in range(_FILES):
        rows = "".join(f"{number * _ROWS + row},some text\n" for row in range(_ROWS))
        (tmp_path / f"{number:03d}.csv").write_text("id,item\n" + rows)
    name = f"inserts.log_{sent.name.lower()}"
    catalog.create_database("inserts", if_not_exists=True)
    log = catalog.create_table(name, pa.schema([("id", pa.int64()), ("item", pa.string())]))
    words = ["-t", stack.target, "insert", name, str(tmp_path), "--job", "j"]
    environment, out, err = {**os.environ, "NO_COLOR": "1"}, tmp_path.with_suffix(".out"), tmp_path.with_suffix(".err")
    process = ForkedProcess(PROGRAM, words, folder=ROOT, environment=environment, output=out, stderr=err)
    wait_until(lambda: log.snapshots().num_rows >= 3, 60, "some files are in")
    process.send_signal(sent)
    process.wait(30)
    done = count_settled(log)
    assert 3 <= done < _FILES, "it was over before it was killed, or never began"
    assert log.scan().count() == done * _ROWS
    assert process.returncode == (-9 if sent == signal.SIGKILL else 130)
    assert ("Go on by the same command with --job j." in err.read_text()) == (sent == signal.SIGINT)
    again = run_forked(PROGRAM, words, folder=ROOT, environment=environment)
    assert again.returncode == 0, again.stderr
    assert f"{done} files had been written before." in again.stdout
    ids = sorted(log.scan(["id"]).to_arrow()["id"].to_pylist())
    assert ids == list(range(_FILES * _ROWS))
