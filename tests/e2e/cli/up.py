"""`lakelog up` and other commands as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.forked import preload, run_forked

preload("lakelog.cli.app", "lakelog.client.grpc.metastore", "lakelog.sdk.catalog", "lakelog.without_pandas")

PROGRAM = "lakelog.cli.main"
COMMAND = [sys.executable, "-m", PROGRAM]

READY_WITHIN_S = 120.0

STOPPED_WITHIN_S = 40.0


def wait_until(condition: Callable[[], Any], within_s: float, what: str) -> Any:
    give_up_s = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < give_up_s, f"not within {within_s:g} s: {what}"
        time.sleep(0.1)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def processes_in(folder: Path) -> dict[int, str]:
    """Command lines of the processes whose working folder or arguments lie in a folder, but `up` itself."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or not is_alive(int(entry.name)):
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            place = str((entry / "cwd").readlink())
        except OSError:
            continue
        if (str(folder) in words or place.startswith(str(folder))) and "lakelog.cli.main" not in words:
            found[int(entry.name)] = words
    return found


@dataclass
class Up:
    """A running `lakelog up`."""

    data: Path
    port: int
    process: subprocess.Popen[str]
    output: Path

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def ready_file(self) -> Path:
        return self.data.with_name("ready.json")

    def wait_until_ready(self) -> dict[str, Any]:
        def ready() -> bool:
            assert self.process.poll() is None, self.output.read_text()
            return self.ready_file.exists()

        wait_until(ready, READY_WITHIN_S, "lakelog up is ready")
        facts: dict[str, Any] = json.loads(self.ready_file.read_text())
        return facts

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        words = ("--target", self.target, *arguments)
        if stdin is not None:
            return run_command(*words, stdin=stdin)
        return run_forked(PROGRAM, words, folder=Path.cwd(), environment=environment())

    def json(self, *arguments: str) -> Any:
        done = self.run("--output", "json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        done = self.run("--output", "json", *arguments)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(STOPPED_WITHIN_S)


def run_command(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, input=stdin, timeout=60, env=environment(), check=False
    )


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("LAKELOG_", "COLUMNS"))}
