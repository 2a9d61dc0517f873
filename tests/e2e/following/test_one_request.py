"""One commit, followed over all services: by the lines of their logs, and by the spans of its trace."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from tests.e2e.following.collector import SeenSpan
from tests.e2e.following.observed import Observed

REQUEST = "nightly-2026-11-27"
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
WITHIN_S = 60.0


@dataclass(frozen=True)
class Followed:
    """A commit that is in the log, and what its program said."""

    observed: Observed
    table: str
    table_uuid: str
    snapshot_id: int
    said: str

    def lines(self, service: str, event: str) -> list[dict[str, Any]]:
        path = self.observed.stack.folder / "logs" / f"{service}.log"
        found = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
        return [line for line in found if line["event"] == event]

    @property
    def published(self) -> list[dict[str, Any]]:
        return [
            line
            for line in self.lines("publisher", "published")
            if line["last_snapshot"] == self.snapshot_id and line["table"] == self.table
        ]


@pytest.fixture(scope="module")
def followed(observed: Observed) -> Followed:
    observed.catalog.create_database("seen")
    table = observed.catalog.create_table(
        "seen.orders",
        SCHEMA,
        primary_key=["k"],
        options={
            "bucket": "1",
            "changelog-producer": "lookup",
            "lookup-wait": "false",
            "log.system": "kafka",
            "log.content": "changelog",
            "kafka.bootstrap.servers": observed.stack.kafka,
            "kafka.topic": f"seen-{uuid.uuid4().hex[:8]}",
        },
    )
    ran = subprocess.run(
        [sys.executable, "-m", "tests.e2e.following.writing_program", table.name, REQUEST],
        env=observed.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = Followed(observed, table.name, table.uuid, int(ran.stdout), ran.stderr)
    wait_until(lambda: found.published)
    return found


def wait_until(is_so: Callable[[], object]) -> None:
    give_up_s = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < give_up_s, "not in time"
        time.sleep(0.05)


def test_lines_of_all_logs_lead_from_the_program_to_the_log_in_kafka(followed: Followed) -> None:
    snapshot = followed.snapshot_id
    assert f"committed snapshot {snapshot} of {followed.table}" in followed.said
    assert f"request {REQUEST}" in followed.said
    of_request = [line for line in followed.lines("metastore", "mutation") if line["request_id"] == REQUEST]
    assert [line["method"] for line in of_request] == ["StageAttempt", "Commit"]
    assert (of_request[1]["table"], of_request[1]["snapshot"]) == ([followed.table], [snapshot])
    attachments = followed.lines("compactor", "changelogs attached")
    (attached,) = [line for line in attachments if line["table"] == followed.table and line["first"] == snapshot]
    assert attached["last"] == snapshot
    # A job is an operation of its own, with a number of its own in both logs.
    job = attached["request_id"]
    of_job = [line["method"] for line in followed.lines("metastore", "mutation") if line["request_id"] == job]
    assert "AttachChangelogs" in of_job
    (published,) = followed.published
    assert published["first_snapshot"] == snapshot


def test_a_trace_leads_from_the_program_over_the_gate_to_the_publisher(followed: Followed) -> None:
    collector = followed.observed.collector

    def spans() -> dict[str, SeenSpan]:
        roots = [each for each in collector.spans if each.name == "upsert"]
        return {
            f"{each.service} {each.name}": each
            for each in collector.spans
            if roots and each.trace == roots[0].trace and not each.name.startswith("Get")
        }

    wait_until(lambda: "publisher publish" in spans() and "metastore transaction" in spans())
    found = spans()
    root = found["lakelog upsert"]
    assert root.parent == "", "the program began the trace"
    ids = {each.span for each in collector.spans}
    assert [each.name for each in found.values() if each is not root and each.parent not in ids] == []
    commit, gate = found["lakelog commit"], found["metastore commit gate"]
    assert commit.parent == root.span
    assert found["lakelog Commit"].parent == commit.span
    assert found["metastore Commit"].parent == found["lakelog Commit"].span
    assert gate.parent == found["metastore Commit"].span
    assert gate.began_ns <= found["metastore transaction"].ended_ns <= gate.ended_ns + 5_000_000
    published = found["publisher publish"]
    assert published.parent == commit.span
    assert (published.attributes["table"], published.attributes["snapshot"]) == (followed.table, followed.snapshot_id)


def test_the_trace_of_a_snapshot_is_a_property_and_only_that(followed: Followed) -> None:
    page = followed.observed.catalog.metastore.list_snapshots(followed.table_uuid)
    (snapshot,) = [each for each in page.snapshots if each.snapshot_id == followed.snapshot_id]
    assert list(snapshot.properties) == ["lakelog.traceparent"]
    table = followed.observed.catalog.table(followed.table)
    # A client that traces nothing leaves nothing.
    other = table.upsert([{"k": 2, "v": 3}])
    page = followed.observed.catalog.metastore.list_snapshots(followed.table_uuid)
    assert [dict(each.properties) for each in page.snapshots if each.snapshot_id == other.snapshot_id] == [{}]


def test_an_error_of_a_call_has_the_id_of_its_line(followed: Followed) -> None:
    with lakelog.request_id("wrong-7"), pytest.raises(lakelog.LakelogError) as caught:
        followed.observed.catalog.drop_database("seen")
    assert caught.value.metadata["request_id"] == "wrong-7"
    (line,) = [each for each in followed.lines("metastore", "mutation") if each["request_id"] == "wrong-7"]
    assert line["outcome"] == caught.value.reason
