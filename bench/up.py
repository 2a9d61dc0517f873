"""A real `lakelog up` for measurements, without a terminal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.measure import WrongAnswerError
from lakelog.embedded.ports import free_port

_ENDS_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Up:
    """It runs.

    Args:
        pid: Of the command; all services are its children.
        facts: What it says when it is ready, as `target`.
        ready_s: Seconds from the start of its process until it said so.
    """

    pid: int
    facts: dict[str, Any]
    ready_s: float


@contextmanager
def running_up(folder: Path, options: Sequence[str] = ()) -> Iterator[Up]:
    """Starts one in a folder, at a free port, and stops it in order."""
    command = [sys.executable, "-m", "lakelog", "-o", "json", "up", "--data", str(folder), "--port", str(free_port())]
    began_s = time.perf_counter()
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE)
    try:
        yield _wait_until_ready(process, began_s)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=_ENDS_WITHIN_S)


def _wait_until_ready(process: subprocess.Popen[bytes], began_s: float) -> Up:
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "ready":
            return Up(process.pid, event, time.perf_counter() - began_s)
    raise WrongAnswerError(f"`lakelog up` ended before it was ready, with exit code {process.wait()}.")
