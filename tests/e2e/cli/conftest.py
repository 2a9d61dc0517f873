from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakelog.embedded.ports import free_port
from tests.e2e.cli.up import COMMAND, STOPPED_WITHIN_S, Up, environment


@pytest.fixture(scope="module")
def start_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Up]]:
    """Starts `lakelog up`; whatever still runs at the end is stopped."""
    started: list[Up] = []

    def start(data: Path | None = None, port: int | None = None, *more: str) -> Up:
        data = data or tmp_path_factory.mktemp("up") / "data"
        port = port or free_port()
        output = data.with_name(f"output-{len(started)}.txt")
        ready_file = data.with_name("ready.json")
        with output.open("w") as file:
            process = subprocess.Popen(
                [*COMMAND, "up", "--data", str(data), "--port", str(port), "--ready-file", str(ready_file), *more],
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment(),
            )
        started.append(Up(data, port, process, output))
        return started[-1]

    yield start
    for up in started:
        if up.process.poll() is None:
            up.process.terminate()
    for up in started:
        up.process.wait(STOPPED_WITHIN_S)
