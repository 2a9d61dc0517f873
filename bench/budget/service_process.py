"""A service in a process of its own, in a memory cgroup where that is possible, and what it uses."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from .memory_group import MemoryGroup

MIB: Final = 2**20
_SAMPLE_S: Final = 0.1
_START_S: Final = 60


@dataclass
class Usage:
    """The most that a process used of each resource.

    Args:
        resident_bytes: Memory, as the kernel has counted it.
        threads: Threads.
        connections: TCP connections that are open.
        files: Open files, connections included.
    """

    resident_bytes: int = 0
    threads: int = 0
    connections: int = 0
    files: int = 0


class ServiceProcess:
    """A service that has started.

    Args:
        command: Its command line.
        environment: Its variables.
        log: The file for what it writes.
        group: The group that bounds its memory; None: nothing bounds it.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, group: MemoryGroup | None
    ) -> None:
        self.log = log
        with log.open("w", encoding="utf-8") as stream:
            self._process = subprocess.Popen(
                list(command) if group is None else group.command(command),
                stdout=stream,
                stderr=stream,
                env={**os.environ, **environment},
            )
        self._watched = psutil.Process(self._process.pid)

    @property
    def is_running(self) -> bool:
        """Whether it lives."""
        return self._process.poll() is None

    def wait_for_line(self, words: str) -> str:
        """Waits for a line with these words, and returns it.

        Raises:
            RuntimeError: It ended, or a minute passed.
        """
        give_up_s = time.monotonic() + _START_S
        while time.monotonic() < give_up_s and self.is_running:
            lines = self.log.read_text(encoding="utf-8").splitlines()
            found = next((line for line in lines if words in line), None)
            if found is not None:
                return found
            time.sleep(0.05)
        raise RuntimeError(f"no line with '{words}': {self.log.read_text(encoding='utf-8')[-2000:]}")

    def watch(self) -> UsageWatch:
        """Measures what it uses from now on."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5", encoding="ascii")
        return UsageWatch(self._watched)

    def end(self) -> None:
        """Ends it at once; idempotent."""
        if self.is_running:
            self._process.kill()
        self._process.wait()


class UsageWatch:
    """Samples a process until it is stopped."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._usage = Usage()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def resident_bytes(self) -> int:
        """The most memory so far."""
        return self._usage.resident_bytes

    def stop(self) -> Usage:
        """Returns the most that was used."""
        self._stop.set()
        self._thread.join()
        return self._usage

    def _run(self) -> None:
        while True:
            try:
                self._sample()
            except (psutil.Error, OSError, KeyError):
                # It has ended: a process whose parent has not waited for it yet has no memory.
                return
            if self._stop.wait(_SAMPLE_S):
                return

    def _sample(self) -> None:
        usage, pid = self._usage, self._process.pid
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        )
        usage.resident_bytes = max(usage.resident_bytes, int(status["VmHWM"].split()[0]) * 1024)
        usage.threads = max(usage.threads, int(status["Threads"]))
        targets = [_target(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
        usage.files = max(usage.files, len(targets))
        usage.connections = max(usage.connections, sum(target.startswith("socket:") for target in targets))


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
