"""Both versions on one database: metastores, services, and clients of either version."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakelog.embedded.ports import free_ports
from lakelog.embedded.processes import ManagedProcess
from lakelog.embedded.services import is_serving
from tests.e2e.upgrade.versions import Version
from tests.support.repository import ROOT

PROGRAM = Path(__file__).with_name("usual_work.py")
PRESENT = Version("present", ROOT)


@dataclass(frozen=True)
class Metastore:
    """A running metastore and its address."""

    target: str
    process: ManagedProcess


class World:
    """Two versions with one database, one Kafka and one warehouse.

    Args:
        previous: The version before this one.
        database_url: An empty database, in SQLAlchemy's form.
        kafka: Bootstrap servers.
        folder: For the warehouse and the logs.
    """

    def __init__(self, previous: Version, database_url: str, kafka: str, folder: Path) -> None:
        self.versions = {"previous": previous, "present": PRESENT}
        self._database_url = database_url
        self._kafka = kafka
        self._folder = folder
        self._started: list[ManagedProcess] = []
        (folder / "warehouse").mkdir()

    def migrate(self, version: str) -> None:
        done = self.versions[version].run(["-m", "metastore", "migrate"], LAKELOG_DATABASE_URL=self._database_url)
        assert done.returncode == 0, done.stderr

    def start_metastore(self, version: str, target: str = "") -> Metastore:
        """Starts a metastore of a version at an address, by default one of its own."""
        target = target or f"127.0.0.1:{free_ports(1)[0]}"
        process = self.versions[version].start(
            "metastore",
            ["serve", "--insecure-dev", "--listen", target, "--warehouse", str(self._folder / "warehouse")],
            log=self.new_log(f"{version}-metastore"),
            is_ready=lambda: is_serving(target),
            LAKELOG_DATABASE_URL=self._database_url,
            LAKELOG_KAFKA_BROKERS=self._kafka,
        )
        self._started.append(process)
        return Metastore(target, process)

    @contextmanager
    def services(self, version: str, target: str) -> Iterator[str]:
        """A compactor, a publisher and a reader of a version; yields the reader's address. They must not end."""
        with self.running_services(version, target) as started:
            yield started[-1].command[started[-1].command.index("--listen") + 1]
            for process in started:
                assert process.is_running, f"{process.name} ended: {process.exit_reason}\n{process.log.read_text()}"

    @contextmanager
    def running_services(self, version: str, target: str) -> Iterator[list[ManagedProcess]]:
        """A compactor, a publisher and a reader of a version at a metastore."""
        reader = f"127.0.0.1:{free_ports(1)[0]}"
        started: list[ManagedProcess] = []
        with ExitStack() as stack:
            for service, arguments in (
                ("compactor", ["run"]),
                ("writer", ["publish"]),
                ("reader", ["serve", "--listen", reader, "--insecure-dev"]),
            ):
                ready = (lambda: is_serving(reader)) if service == "reader" else None
                log = self.new_log(f"{version}-{service}")
                started.append(
                    self.versions[version].start(service, arguments, log=log, is_ready=ready, LAKELOG_TARGET=target)
                )
                stack.callback(started[-1].stop)
            yield started

    def use(self, version: str, target: str, reader: str, *words: str) -> Any:
        """Lets a client of a version do a step of the usual work, and returns what it has seen."""
        done = self.versions[version].run([str(PROGRAM), *words], LAKELOG_TARGET=target, LAKELOG_READER=reader)
        assert done.returncode == 0, f"{version} {words}: {done.stderr}{done.stdout}"
        answer = json.loads(done.stdout)
        assert Path(answer["lakelog"]).is_relative_to(self.versions[version].tree), "the other version's code ran"
        return answer["found"]

    def command(self, version: str, target: str, *words: str) -> tuple[int, str]:
        """The exit code and the output of the command `lakelog` of a version."""
        done = self.versions[version].run(["-m", "lakelog", *words], LAKELOG_TARGET=target)
        return done.returncode, done.stdout + done.stderr

    def new_log(self, name: str) -> Path:
        return self._folder / f"{name}-{len(os.listdir(self._folder))}.log"

    def close(self) -> None:
        for process in reversed(self._started):
            process.stop()
