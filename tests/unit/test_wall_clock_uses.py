"""Durations are measured by the monotonic clock, since the wall clock can step. Its uses are listed here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.repository import ROOT

READS = re.compile(r"\btime\.(time|time_ns)\(|\b(datetime|date)\.(now|utcnow|today)\(|\bfrom time import")
PRODUCT = ("lakelog", "metastore", "compactor", "reader", "writer", "console")

USES = {
    "lakelog/clock.py": "the clock itself",
    "lakelog/cli/bundle/writing.py": "says when it was made",
    "lakelog/cli/commands/health/watching.py": "shows the time of day",
    "lakelog/cli/commands/jobs.py": "shows ages",
    "lakelog/cli/completion/name_cache.py": "ages of names that another process has kept",
    "lakelog/cli/commands/log.py": "shows ages",
    "lakelog/cli/commands/pipelines.py": "shows ages",
    "lakelog/cli/commands/health/status_record.py": "shows ages",
    "lakelog/cli/doctor/situation.py": "compared with the clock of the metastore's database",
    "lakelog/cli/up/up.py": "shows ages",
    "lakelog/cli/commands/rows/insert.py": "part of a name",
    "lakelog/demo/freshness.py": "stands in rows, beside times of commits",
    "lakelog/demo/kafka_consumers/arrivals.py": "compared with a time in a row",
    "lakelog/demo/story.py": "expires what is older",
    "lakelog/spark/session/class_files.py": "compared with the time of a file",
    "lakelog/testing/plain_consumer.py": "compared with a time in a row",
    "metastore/credentials/token_service.py": "part of a signature",
}


def find_uses(folder: Path) -> set[str]:
    """The product's files that read the wall clock by themselves."""
    paths = (path for name in PRODUCT for path in (folder / name).rglob("*.py"))
    return {str(path.relative_to(folder)) for path in paths if READS.search(path.read_text())}


def test_the_wall_clock_is_read_only_where_a_time_of_day_is_meant() -> None:
    assert find_uses(ROOT) == set(USES)


@pytest.mark.parametrize("line", ["give_up = time.time() + 5", "began = dt.datetime.now(dt.UTC)", "time.time_ns()"])
def test_control_another_use_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "reader").mkdir()
    (tmp_path / "reader" / "loop.py").write_text(f"import time\n{line}\n")
    assert find_uses(tmp_path) == {"reader/loop.py"}
