"""A metastore as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from tests.support.forked import ForkedProcess, preload, run_forked
from tests.support.health import health_of

preload("metastore.config", "metastore.wiring", "metastore.postgres.schema.alembic_steps")

ROOT = Path(__file__).parents[3]


def environment(**variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LAKELOG_")}
    return inherited | {"PYTHONPATH": str(ROOT)} | variables


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_forked("metastore", arguments, folder=ROOT, environment=environment(**variables))


def migrate(database_url: str) -> None:
    """Brings a database to this version's tables, as an operator does."""
    done = run("migrate", "--database-url", database_url)
    assert done.returncode == 0, done.stderr


class Process:
    """A metastore of its own."""

    def __init__(self, database_url: str, warehouse: Path | str, *arguments: str, log: Path, **variables: str) -> None:
        self.log = log
        words = ["serve", "--insecure-dev", "--listen", "127.0.0.1:0", "--warehouse", str(warehouse)]
        self.process = ForkedProcess(
            "metastore",
            [*words, "--metrics-port", "0", *arguments],
            folder=ROOT,
            environment=environment(LAKELOG_DATABASE_URL=database_url, **variables),
            output=(output := log.with_suffix(".out")),
            stderr=log,
        )
        give_up_s = time.monotonic() + 60
        while "\n" not in (said := output.read_text()) and self.process.poll() is None:
            assert time.monotonic() < give_up_s, log.read_text()
            time.sleep(0.02)
        self.ready_line = said.partition("\n")[0]
        assert "metastore ready on 127.0.0.1:" in self.ready_line, log.read_text()
        self.target = self.ready_line.split(" on ", 1)[1].split(" ", 1)[0]
        self.metrics_url = self.ready_line.rpartition(" on ")[2]

    def health(self) -> int:
        return health_of(self.target, "lakelog.rpc.v1.SnapshotService")

    def wait_for_health(self, wanted: int) -> None:
        give_up = time.monotonic() + 20
        while self.health() != wanted:
            assert time.monotonic() < give_up, self.log.read_text()
            time.sleep(0.1)

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
