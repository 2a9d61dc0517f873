"""A pipeline's folder with its table, and the service as a process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lakelog.embedded.stack import EmbeddedStack
from lakelog.format.jobs.work import Pipeline
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.forked import ForkedProcess, preload
from tests.support.repository import ROOT
from tests.support.spark.python_path import PYTHON_PATH

preload("writer.config", "writer.wiring")


@dataclass
class Writer:
    """A process of the service; its log is kept."""

    process: ForkedProcess
    log: Path

    def wait(self, within_s: float = 240.0) -> int:
        """The exit code; a killed process has a negative one."""
        return self.process.wait(within_s)

    def send(self, number: signal.Signals) -> None:
        """To the service alone."""
        self.process.send_signal(number)

    def send_all(self, number: signal.Signals) -> None:
        """To the service and all that it started."""
        self.process.signal_session(number)

    def is_frozen(self) -> bool:
        """Whether it has stopped itself, or was stopped."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def text(self) -> str:
        return self.log.read_text()


@dataclass
class World:
    """A pipeline, its table, its source."""

    folder: Path
    stack: EmbeddedStack
    catalog: Catalog
    name: str
    table: str
    mode: str = "append"
    writers: list[Writer] = field(default_factory=list)
    next_row: int = 0
    next_file: int = 0

    def write_pipeline(self, more: str = "", trigger: str = "{available_now: true}") -> Path:
        file = self.folder / "pipeline.yaml"
        file.write_text(
            f"name: {self.name}\ntable: {self.table}\nmode: {self.mode}\n"
            "source: {type: files, path: ./in, format: csv, max_files_per_batch: 2}\n"
            f"trigger: {trigger}\ncheckpoint: ./state\n{more}"
        )
        return file

    def use_table_with_key(self, producer: str) -> Table:
        """Goes on with another table, whose changelog is made by a producer; returns it."""
        self.table, self.mode = f"{self.table}_keyed", "upsert"
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
        options = {"bucket": "2", "changelog-producer": producer}
        return self.catalog.create_table(self.table, schema, primary_key=["id"], options=options)

    def add_files(self, count: int, rows: int = 10, bad: int = 0, price: bool = False) -> None:
        """Files of rows that are unique in the world, so that a lost or doubled one shows; perhaps with a price."""
        for _ in range(count):
            ids = range(self.next_row, self.next_row + rows)
            lines = [f"{row},name {row}" + f",{row}" * price for row in ids] + ["bad,record"] * bad
            path = self.folder / "in" / f"{self.next_file:06d}.csv"
            draft = path.with_suffix(".tmp")
            draft.write_text("id,name" + ",price" * price + "\n" + "\n".join(lines) + "\n")
            draft.rename(path)
            self.next_row += rows
            self.next_file += 1

    def start(self, *arguments: str, fault: str = "", cores: int = 1) -> Writer:
        """Starts the service; for few rows one core is enough, as Spark starts fewer processes then."""
        module = "tests.e2e.writer.faulty" if fault else "writer"
        file, master = str(self.folder / "pipeline.yaml"), f"local[{cores}]"
        words = ["run", file, "--target", self.stack.target, "--spark-master", master, *arguments]
        log = self.folder / f"writer-{len(self.writers)}.log"
        environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "FAULT": fault}
        process = ForkedProcess(module, words, folder=ROOT, environment=environment, output=log, leads=True)
        self.writers.append(Writer(process, log))
        return self.writers[-1]

    def ids(self) -> list[int]:
        """The rows of the table, sorted."""
        found = self.catalog.table(self.table).scan(columns=["id"]).to_arrow().column("id").to_pylist()
        return sorted(found)

    def has_all_rows_once(self) -> bool:
        return self.ids() == list(range(self.next_row))

    def snapshots(self) -> int:
        return int(self.catalog.table(self.table).snapshots().num_rows)

    def has_more_snapshots(self, than: int) -> bool:
        return self.snapshots() > than

    def pipeline(self) -> Pipeline | None:
        """What the service reported."""
        return next((found for found in self.catalog.metastore.list_pipelines() if found.name == self.name), None)

    def until(self, what: Callable[[], bool], within_s: float = 180.0) -> None:
        """Waits until something is so; a failure shows the services' logs."""
        deadline = time.monotonic() + within_s
        while not what():
            logs = "\n".join(f"--- {writer.log.name}\n{writer.text()[-3000:]}" for writer in self.writers)
            assert time.monotonic() < deadline, f"not within {within_s} s\n{logs}"
            time.sleep(0.05)

    def orphans(self) -> list[str]:
        """Files in the table's folder that no snapshot refers to."""
        table = self.catalog.table(self.table)
        files = table.files()
        live = set(files.column("path").to_pylist()) if files.num_rows else set()
        reported = PlanRequest(table.uuid, InRange(0, self.snapshots()), changelog=True)
        metastore = self.catalog.metastore
        live |= set(metastore.plan(reported).files.column("path").to_pylist()) if self.snapshots() else set()
        deletion_vectors = metastore.plan(PlanRequest(table.uuid)).files.column("deletion_vector_path").to_pylist()
        live |= {path for path in deletion_vectors if path}
        location = Path(self.catalog.table(self.table)._info.location.removeprefix("file://"))
        return [str(path) for path in location.rglob("*.parquet") if not any(str(path).endswith(name) for name in live)]
