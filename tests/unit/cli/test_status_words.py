"""What `lakelog status` says in one line of jobs and of logs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lakelog.cli.commands.health.status_record import _sum_up_jobs, _sum_up_logs
from lakelog.format.jobs.queue import JobQueue


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ([], "none"),
        ([JobQueue("compact", 0, 0, 0, 0, 0)], "none"),
        ([JobQueue("compact", 3, 0, 1, 0, 2500)], "compact: 3 due for 2 s, 1 being done"),
        (
            [JobQueue("compact", 0, 1, 0, 2, 0), JobQueue("expire", 1, 0, 0, 0, 60_000)],
            "compact: 1 resting, 2 failed; expire: 1 due for 1 min. "
            "None is running. Is there a compactor (lakelog compactor run)?",
        ),
        (
            [JobQueue("compact", 0, 0, 1, 0, 0), JobQueue("expire", 1, 0, 0, 0, 60_000)],
            "compact: 1 being done; expire: 1 due for 1 min",
        ),
    ],
)
def test_jobs(queues: list[JobQueue], words: str) -> None:
    assert _sum_up_jobs([dataclasses.asdict(queue) for queue in queues]) == words


def log(table: str, behind: int = 0, behind_ms: int = 0, problem: str | None = None) -> dict[str, Any]:
    return {"table": table, "snapshots_behind": behind, "behind_ms": behind_ms, "problem": problem}


@pytest.mark.parametrize(
    ("logs", "words"),
    [
        ([], "none"),
        ([log("a.a"), log("a.b")], "2, all published"),
        ([log("a.a", 9, 1000), log("a.b", 2, 4000)], "2, a.b 2 snapshots behind for 4 s"),
        ([log("a.a", 9, 9000), log("a.b", 1, 10, "No publisher serves it.")], "2; a.b: No publisher serves it."),
    ],
)
def test_logs(logs: list[dict[str, Any]], words: str) -> None:
    assert _sum_up_logs(logs) == words
