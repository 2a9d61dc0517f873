"""One Kafka broker for all processes of a test run.

`python -m tests.support.log.kafka_broker FOLDER PID` holds it as long as the process PID lives.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakelog.embedded.kafka.broker import EmbeddedKafka
from lakelog.embedded.kafka.jars import find_kafka_jars
from lakelog.errors import Unavailable
from tests.support.repository import ROOT


def require_kafka() -> None:
    """Skips where the jars of Kafka are not there and cannot be fetched, as on a train; fails where all must run."""
    try:
        find_kafka_jars(os.environ)
    except Unavailable as error:
        if os.environ.get("LAKELOG_CI"):
            raise
        pytest.skip(str(error))


@contextmanager
def shared_broker() -> Iterator[str]:
    """Bootstrap servers of the broker of this run, which whoever comes first starts."""
    require_kafka()
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        with (
            tempfile.TemporaryDirectory(prefix="ll-kafka-", ignore_cleanup_errors=True) as own,
            EmbeddedKafka(Path(own)) as kafka,
        ):
            yield kafka.bootstrap_servers
        return
    folder = Path(tempfile.gettempdir()) / f"ll-kafka-{run}"
    folder.mkdir(exist_ok=True)
    with (folder / "starting.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        address = folder / "address"
        if not address.exists():
            _start_holder(folder)
        servers = address.read_text()
    yield servers


def _start_holder(folder: Path) -> None:
    # Not this process, which ends when it has no more tests: the one that all of a run's processes are children of.
    command = [sys.executable, "-m", "tests.support.log.kafka_broker", str(folder), str(os.getppid())]
    with (folder / "holder.log").open("ab") as log:
        holder = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    assert holder.stdout is not None
    with holder.stdout:
        if not holder.stdout.read():
            raise RuntimeError(f"The broker did not start:\n{(folder / 'holder.log').read_text()[-4000:]}")
    # It outlives us on purpose, which is no news for the end of this process.
    holder.returncode = 0


def _hold(folder: Path, parent: int) -> None:
    """Runs a broker until a process has ended, and leaves nothing behind."""
    life = os.pidfd_open(parent)
    try:
        with EmbeddedKafka(folder / "kafka") as kafka:
            (folder / "address").write_text(kafka.bootstrap_servers)
            os.write(1, b"ready\n")
            os.close(1)
            select.select([life], [], [])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _hold(Path(sys.argv[1]), int(sys.argv[2]))
