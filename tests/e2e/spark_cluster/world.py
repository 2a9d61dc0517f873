"""Services and programs whose Spark is a cluster, what happens to its machines, and what is there afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.store import S3Settings
from lakelog.storage.objects.stores import open_store
from lakelog.testing.history import Finding, SeenSnapshot, Write, check_history
from tests.support.s3.faults import Rule, Silent
from tests.support.s3.proxy import S3Proxy
from tests.support.spark.standalone import Machine, StandaloneCluster

SERVICES = "lakelog.services"
"""Where they are in the wheel, which is all of lakelog that drivers and executors have."""


@dataclass
class Driver:
    """A process whose Spark runs on the cluster."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, within_s: float = 240.0) -> int:
        return self.process.wait(within_s)


@dataclass
class World:
    """A catalog on S3, and a cluster that reaches S3 through a proxy."""

    folder: Path
    catalog: Catalog
    target: str
    cluster: StandaloneCluster
    proxy: S3Proxy
    s3: S3Settings
    drivers: list[Driver] = field(default_factory=list)

    def start_program(self, command: list[str], variables: Mapping[str, str] | None = None) -> Driver:
        """Starts a program as on a machine of its own, which has lakelog from the wheel."""
        folder = self.folder / f"driver-{len(self.drivers)}"
        folder.mkdir()
        environment = {**self.cluster.driver_environment(folder, self.s3), "LAKELOG_TARGET": self.target}
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env={**environment, **(variables or {})},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.drivers.append(Driver(process, log))
        return self.drivers[-1]

    def start_service(self, service: str, *arguments: str, conf: Mapping[str, str] | None = None) -> Driver:
        """Starts a service of the wheel with its Spark on the cluster, and further settings of Spark."""
        given = {**self.cluster.conf, **(conf or {})}
        settings = [word for key, value in given.items() for word in ("--spark-conf", f"{key}={value}")]
        words = ["--spark-master", self.cluster.url, "--spark-log", "-", *settings]
        return self.start_program([sys.executable, "-m", f"{SERVICES}.{service}", *arguments, *words])

    def end(self) -> None:
        """Kills what still runs."""
        self.proxy.heal()
        for driver in self.drivers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.process.pid, signal.SIGKILL)
            driver.process.wait()

    # What happens to the machines

    @contextmanager
    def writes_held(self, table: Table, *, after: int, begin: Callable[[], object] | None = None) -> Iterator[None]:
        """Inside, executors have written some files of a table, and at least one is writing another without an end.

        The block begins when it is so.

        Args:
            table: The table.
            after: How many files are written before.
            begin: Begins the work; None: it goes on by itself, with what earlier work has left.
        """
        path = re.escape(table.info.location.removeprefix("s3:/").partition("?")[0])
        is_data = rf"{path}\S*\.parquet"
        before = self.proxy.effects[Silent]
        self.proxy.strike(Rule(Silent(), "PUT", is_data, first=after + 1))
        try:
            if begin is not None:
                begin()
            self.until(lambda: self.proxy.effects[Silent] > before)
            yield
        finally:
            self.proxy.heal()

    def kill_executor(self, machine: Machine) -> None:
        """Kills an executor, with its Python workers; its worker starts another one."""
        killed = self.cluster.executors(machine)
        assert killed, "there is none to kill"
        for process in killed:
            os.kill(process, signal.SIGKILL)

    def kill_machine(self, machine: Machine) -> None:
        """Kills a worker and its executors, as a machine that loses power."""
        killed = self.cluster.executors(machine)
        assert killed, "it runs no executor"
        self.cluster.kill_worker(machine)
        for process in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def until(self, what: Callable[[], object], within_s: float = 200.0) -> None:
        """Waits until something is so; a failure shows the logs of the drivers, and an end of one is a failure."""
        give_up_s = time.monotonic() + within_s
        while not what():
            ended = [driver for driver in self.drivers if driver.process.poll() not in (None, 0)]
            is_late = time.monotonic() > give_up_s or bool(ended)
            assert not is_late, "\n".join(driver.text()[-6000:] for driver in self.drivers)
            time.sleep(0.02)

    # What is there

    def check(self, table: Table, writes: list[Write], column: str = "v") -> list[Finding]:
        """What is wrong with the table's snapshots and rows; its changes, replayed, must be its rows."""
        table = self.catalog.table(table.name)
        rows = table.changes(timeout=120).to_arrow().to_pylist()
        shown: dict[Any, Any] = {}
        added: dict[int, list[str]] = {}
        for row in rows:
            key = row.get("k", row[column])
            if row.get("_row_kind", "+I") in ("-U", "-D"):
                assert shown.pop(key, None) == row[column], f"{row} takes away what was not there"
            else:
                assert key not in shown, f"{row} adds what is there already"
                shown[key] = row[column]
                added.setdefault(row["_snapshot_id"], []).append(row[column])
        assert sorted(shown.values()) == sorted(table.scan([column]).to_arrow().column(column).to_pylist())
        numbers = table.snapshots().column("id").to_pylist()
        seen = [SeenSnapshot(table.name, number, tuple(added.get(number, ()))) for number in sorted(numbers)]
        return check_history(writes, seen)

    def orphans(self, table: Table) -> set[str]:
        """Files in the table's folder that neither a snapshot nor the changelog names."""
        store, metastore = open_store(table.info.location, self.s3), self.catalog.metastore
        last = max(self.catalog.table(table.name).snapshots().column("id").to_pylist())
        requests = [PlanRequest(table.uuid, AtSnapshot(each)) for each in range(1, last + 1)]
        requests.append(PlanRequest(table.uuid, InRange(0, last), changelog=True))
        plans = [metastore.plan(request).files for request in requests]
        columns = ("path", "deletion_vector_path")
        named = {path for files in plans for column in columns for path in files.column(column).to_pylist()}
        return {each.path for each in store.list_objects() if each.path.endswith(".parquet")} - named
