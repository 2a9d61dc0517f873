"""`lakelog reader run` as processes of their own, beside the metastore of all tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakelog.embedded.stack import EmbeddedStack
from tests.e2e.reader.reader_process import Reader
from tests.support.repository import ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.slow)
            # A session of Spark takes half a minute to start on a busy machine.
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture
def start_reader(stack: EmbeddedStack, tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    """Starts `lakelog reader <arguments>`; all end with the test."""
    started: list[Reader] = []

    def start(*arguments: str | Path) -> Reader:
        log = tmp_path / f"reader-{len(started)}.log"
        environment = {**os.environ, "LAKELOG_TARGET": stack.target, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "reader", *map(str, arguments)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=tmp_path, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        started.append(Reader(process, log))
        return started[-1]

    yield start
    for reader in started:
        if reader.process.poll() is None:
            reader.kill()
