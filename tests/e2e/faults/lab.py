"""What the fault tests share: a stack with tables, writer processes, and what can be seen afterwards."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

import lakelog
from lakelog.sdk.catalog import Catalog
from lakelog.testing import EmbeddedStack
from lakelog.testing.history import SeenSnapshot, Write, check_history
from tests.e2e.faults.writer_process import KEYED, LOG, SCHEMA, Orders, main
from tests.support.forked import FORKS, preload

preload("tests.e2e.faults.writer_process")


@dataclass
class WriterProcess:
    """A running client."""

    process: Any
    writer: str

    def wait(self, within_s: float = 60.0) -> int:
        self.process.join(within_s)
        assert self.process.exitcode is not None, f"{self.writer} did not end within {within_s:g} s"
        return int(self.process.exitcode)

    def wait_until_frozen(self, within_s: float = 30.0) -> None:
        give_up_s = time.monotonic() + within_s
        while Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert self.process.exitcode is None, f"ended with {self.process.exitcode} instead of freezing"
            assert time.monotonic() < give_up_s, "not frozen in time"
            time.sleep(0.02)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)


@dataclass
class Lab:
    """A stack, its tables and the processes that write to them."""

    stack: EmbeddedStack
    folder: Path
    processes: list[WriterProcess] = field(default_factory=list)

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    def connect(self) -> Catalog:
        return lakelog.connect(self.stack.target)

    def make_tables(self) -> None:
        """Two empty tables; those of an earlier test are dropped."""
        self.journal.unlink(missing_ok=True)
        with self.connect() as catalog:
            catalog.drop_database("lab", if_exists=True, cascade=True)
            catalog.create_database("lab")
            catalog.create_table(KEYED, SCHEMA, primary_key=["k"], options={"bucket": "3"})
            catalog.create_table(LOG, SCHEMA)

    def start_writer(self, writer: str, **orders: Any) -> WriterProcess:
        given = Orders(
            target=orders.pop("target", self.stack.target), journal=str(self.journal), writer=writer, **orders
        )
        process = FORKS.Process(target=main, args=(given,), name=f"writer {writer}", daemon=True)
        process.start()
        started = WriterProcess(process, writer)
        self.processes.append(started)
        return started

    def run_writer(self, writer: str, **orders: Any) -> int:
        """Runs a client to its end and returns its exit code."""
        return self.start_writer(writer, **orders).wait()

    def end_processes(self) -> None:
        for started in self.processes:
            started.process.kill()
            started.process.join()
            started.process.close()
        self.processes.clear()

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        if not self.journal.exists():
            return []
        # A line that was cut by a kill is the last one of its process, but others may have written behind it.
        found = []
        for line in self.journal.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return [event for event in found if kind in (None, event["event"])]

    def wait_for(self, condition: Callable[[], object], within_s: float, what: str) -> None:
        give_up_s = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < give_up_s, f"not within {within_s:g} s: {what}"
            time.sleep(0.05)

    # What is there

    def writes(self) -> list[Write]:
        """The journal as a history; what several processes did under one number is one write each."""
        ends = {(e["writer"], e["identifier"]): e for e in self.events("ends")}
        begun: dict[tuple[str, int], Write] = {}
        for event in self.events("begins"):
            key = (event["writer"], event["identifier"])
            end = ends.get(key)
            outcome = "unknown" if end is None else "refused" if end["outcome"] == "refused" else "acknowledged"
            if key not in begun:
                begun[key] = Write(
                    event["writer"],
                    event["identifier"],
                    {table: tuple(event["values"]) for table in event["tables"]},
                    outcome,  # type: ignore[arg-type]
                    event["at_s"],
                    None if end is None else end["at_s"],
                )
        return list(begun.values())

    def seen(self) -> list[SeenSnapshot]:
        """Every snapshot of both tables; and that a scan shows the same rows, from files that are all there."""
        with self.connect() as catalog:
            found = []
            for name in (KEYED, LOG):
                table = catalog.table(name)
                changes = table.changes(raw=True).to_arrow() if name == KEYED else table.changes().to_arrow()
                by_snapshot: dict[int, list[str]] = {}
                for number, value in zip(
                    changes.column("_snapshot_id").to_pylist(), changes.column("v").to_pylist(), strict=True
                ):
                    by_snapshot.setdefault(number, []).append(value)
                numbers = table.snapshots().column("id").to_pylist()
                assert set(by_snapshot) <= set(numbers)
                found += [SeenSnapshot(name, number, tuple(by_snapshot.get(number, ()))) for number in numbers]
                scanned = table.scan().to_arrow().column("v").to_pylist()
                assert sorted(scanned) == sorted(value for values in by_snapshot.values() for value in values)
            return found

    def check(self, writes: Sequence[Write] | None = None) -> list[str]:
        """All that is wrong with the history so far."""
        return [str(finding) for finding in check_history(self.writes() if writes is None else writes, self.seen())]

    def orphans(self) -> dict[str, str]:
        """States of the attempts that have files which belong to no live one, by attempt id."""
        warehouse = self.folder / "warehouse"
        with self.connect() as catalog:
            live: set[str] = set()
            for name in (KEYED, LOG):
                table = catalog.table(name)
                folder = Path(table.location.removeprefix("file://"))
                live |= {str(folder / path) for path in table.files().column("path").to_pylist()}
                of_tables = {path for path in live if not Path(path).exists()}
                assert not of_tables, f"live files are missing: {of_tables}"
            roots = [Path(catalog.table(name).location.removeprefix("file://")) for name in (KEYED, LOG)]
        assert all(root.is_relative_to(warehouse) for root in roots)
        stray = [path for root in roots for path in root.rglob("*") if path.is_file() and str(path) not in live]
        attempts = {path.parent.name for path in stray}
        return {attempt: self._attempt_state(attempt) for attempt in attempts}

    def _attempt_state(self, attempt: str) -> str:
        with psycopg.connect(self.stack.database_url.replace("+psycopg", "")) as connection:
            row = connection.execute("SELECT state FROM attempt WHERE attempt_id = %s::uuid", [attempt]).fetchone()
        return str(row[0]) if row else "unknown"
