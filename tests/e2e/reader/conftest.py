"""`lakelog reader run` as processes of their own, beside the metastore of all tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakelog.embedded.stack import EmbeddedStack
from tests.e2e.reader.reader_process import Reader
from tests.support.forked import ForkedProcess, preload
from tests.support.spark.python_path import PYTHON_PATH

preload("reader.config", "reader.stream_wiring")


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
        environment = {**os.environ, "LAKELOG_TARGET": stack.target, "PYTHONPATH": PYTHON_PATH}
        # For few rows one core is enough, as Spark starts fewer processes then.
        words = [*map(str, arguments), "--spark-master", "local[1]"]
        process = ForkedProcess("reader", words, folder=tmp_path, environment=environment, output=log, leads=True)
        started.append(Reader(process, log))
        return started[-1]

    yield start
    for reader in started:
        if reader.process.poll() is None:
            reader.kill()
