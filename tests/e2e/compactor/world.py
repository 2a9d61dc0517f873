"""Compactors as processes of their own, and the table they work for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lakelog.embedded.stack import EmbeddedStack
from lakelog.format.jobs.job import CHANGELOG, Job
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.forked import ForkedProcess, preload
from tests.support.spark.python_path import PYTHON_PATH

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])

LEASE_S = 2

preload("compactor.config", "compactor.wiring")


@dataclass
class Compactor:
    """A process of the service; its log is kept."""

    process: ForkedProcess
    log: Path

    def wait(self, within_s: float = 60.0) -> int:
        """The exit code; a killed process has a negative one."""
        return self.process.wait(within_s)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def is_frozen(self) -> bool:
        """Whether it has stopped itself, or was stopped."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def text(self) -> str:
        return self.log.read_text()


@dataclass
class World:
    """A table, and the compactors that work for it."""

    folder: Path
    stack: EmbeddedStack
    catalog: Catalog
    table: Table
    compactors: list[Compactor] = field(default_factory=list)

    def start(
        self, *arguments: str, fault: str = "", lease_s: float = LEASE_S, for_all_tables: bool = False
    ) -> Compactor:
        """Starts a compactor, for the world's table if not for all."""
        log = self.folder / f"compactor-{len(self.compactors)}.log"
        module = "tests.e2e.compactor.faulty" if fault else "compactor"
        tables = [] if for_all_tables else ["--tables", self.table.name]
        words = ["run", *tables, *arguments, "--lease-seconds", str(lease_s), "--log-level", "debug"]
        environment = {
            **os.environ,
            "LAKELOG_TARGET": self.stack.target,
            "LAKELOG_CACHE_DIR": str(self.folder / "cache"),
            "PYTHONPATH": PYTHON_PATH,
            "FAULT": fault,
        }
        process = ForkedProcess(module, words, folder=self.folder, environment=environment, output=log)
        self.compactors.append(Compactor(process, log))
        return self.compactors[-1]

    def upsert(self, *pairs: tuple[int, int]) -> None:
        columns = [[pair[place] for pair in pairs] for place in range(2)]
        self.table.upsert(pa.table(columns, schema=SCHEMA))

    @property
    def job(self) -> Job:
        (job,) = [job for job in self.catalog.metastore.list_jobs([self.table.uuid]) if job.kind == CHANGELOG]
        return job

    @property
    def complete_until(self) -> int:
        return self.catalog.metastore.list_snapshots(self.table.uuid, limit=1).complete_until

    @property
    def changelog_files(self) -> list[Path]:
        """Every changelog file that lies in the table's folder."""
        return sorted(Path(self.table.info.location.removeprefix("file://")).rglob("late-*.parquet"))

    def changes(self) -> list[tuple[int, str, int, int]]:
        rows = self.table.changes(timeout=60).to_arrow().to_pylist()
        return [(row["_snapshot_id"], row["_row_kind"], row["k"], row["v"]) for row in rows]

    def replayed(self) -> dict[int, int]:
        """The table as one knows it who saw nothing but its changelog, and who notices what contradicts it."""
        known: dict[int, int] = {}
        for _, kind, key, value in self.changes():
            if kind in ("-U", "-D"):
                assert known.pop(key, "nothing") == value, f"{kind} {key}|{value} takes away what was not there"
            else:
                assert key not in known, f"{kind} {key}|{value} adds what is there already"
                known[key] = value
        return known

    def shown(self) -> dict[int, int]:
        return {row["k"]: row["v"] for row in self.table.scan().to_arrow().to_pylist()}

    def wait_for(self, is_so: Callable[[], object], within_s: float = 60.0) -> None:
        give_up = time.monotonic() + within_s
        while not is_so():
            assert time.monotonic() < give_up, "\n".join(each.text()[-2000:] for each in self.compactors)
            time.sleep(0.05)
