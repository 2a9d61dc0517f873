"""A writer that freezes, or is killed, when its rows are in the log before their commit (`eventual`, semantics 4.2).

Whoever leaves out what belongs to no commit sees each row of the table, and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from bench.faults.tables import SCHEMA
from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.tables.table import Table
from lakelog.testing.log_recording import Recorder
from tests.support.forked import ForkedProcess, preload
from tests.support.forked_stack import forked_stack
from tests.support.log.kafka_broker import require_kafka
from tests.support.repository import ROOT

pytestmark = pytest.mark.e2e

preload("lakelog.log.kafka.sending.uncommitted")

WAIT_S = 60.0
COUNT = 6


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    require_kafka()
    with (
        tempfile.TemporaryDirectory(prefix="ll-log-", ignore_cleanup_errors=True) as folder,
        forked_stack(folder, services=["metastore", "publisher"], kafka=True) as stack,
    ):
        yield stack


@pytest.mark.parametrize("end", ["goes on", "is killed"])
def test_rows_of_a_writer_that_freezes_among_them(stack: EmbeddedStack, tmp_path: Path, end: str) -> None:
    with lakelog.connect(stack.target) as catalog:
        catalog.create_database("shop", if_not_exists=True)
        options = {"log.system": "kafka", "log.consistency": "eventual"}
        table = catalog.create_table(f"shop.{end.replace(' ', '_')}", SCHEMA, options=options)
        topic = catalog.metastore.get_log(table.uuid).topic
        words = [stack.target, table.name, "frozen", str(COUNT)]
        environment = {**os.environ, "LAB_FREEZE_AT": "sent 3"}
        with Recorder(stack.kafka, topic, tmp_path / "seen.jsonl") as recorder:
            writer = ForkedProcess(
                "tests.e2e.log.writer_process",
                words,
                folder=ROOT,
                environment=environment,
                output=tmp_path / "writer.log",
            )
            try:
                wait_until_frozen(writer)
                table.append(pa.table({"k": [1], "v": ["other"]}, schema=SCHEMA))
                drain(table)
                writer.send_signal(signal.SIGCONT if end == "goes on" else signal.SIGKILL)
                assert writer.wait(WAIT_S) == (0 if end == "goes on" else -signal.SIGKILL)
            finally:
                writer.kill()
                writer.wait()
            drain(table)
            lines = [json.loads(line) for line in recorder.stop().read_text().splitlines()]
        values = table.scan().to_arrow()["v"].to_pylist()
        assert len(values) == (COUNT + 1 if end == "goes on" else 1)
        assert to_values(lines) >= {"frozen.0", "other"}, "the first rows were not sent before it froze"
        committed = {each.attempt_id for each in catalog.metastore.list_snapshots(table.uuid).snapshots}
        # Records of the publisher have no attempt.
        ours = [line for line in lines if line["attempt"] is None or line["attempt"] in committed]
        assert to_values(ours) == set(values)


def to_values(lines: list[dict[str, str]]) -> set[str]:
    return {json.loads(line["value"])["after"]["v"] for line in lines}


def drain(table: Table) -> None:
    give_up_s = time.monotonic() + WAIT_S
    while True:
        state = table._context.metastore.get_publish_state(table.uuid)
        if state.snapshot_id == state.latest_snapshot_id:
            return
        assert time.monotonic() < give_up_s, state
        time.sleep(0.05)


def wait_until_frozen(process: ForkedProcess) -> None:
    give_up_s = time.monotonic() + WAIT_S
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert process.poll() is None, "it ended instead of freezing"
        assert time.monotonic() < give_up_s, "it did not freeze in time"
        time.sleep(0.02)
