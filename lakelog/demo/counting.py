"""Runs the demo's subscriber as a process: starts it, kills it, starts it again."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from lakelog.demo.subscriber import Numbers, read_numbers
from lakelog.embedded.spawn import spawn_child
from lakelog.errors import Unavailable


class CountingProcess:
    """Runs `lakelog.demo.subscriber`."""

    def __init__(self, target: str, folder: Path) -> None:
        self._target = target
        self._file = folder / "delays.json"
        self._log = folder / "logs" / "subscriber.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = spawn_child(
                [sys.executable, "-m", "lakelog.demo.subscriber", self._target, str(self._file)], log=log
            )

    def kill(self) -> None:
        """Kills it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def numbers(self) -> Numbers:
        """Its present numbers; the file is always complete."""
        return read_numbers(self._file)

    def wait_for(self, snapshot_id: int, timeout_s: float) -> Numbers:
        """Waits until it has counted a snapshot.

        Raises:
            Unavailable: It ended, or did not reach the snapshot in time.
        """
        end_s = time.monotonic() + timeout_s
        while (numbers := self.numbers()).snapshot_id < snapshot_id:
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > end_s:
                words = self._log.read_text(encoding="utf-8")[-1000:] if self._log.exists() else ""
                raise Unavailable(
                    f"The subscriber is at snapshot {numbers.snapshot_id} of {snapshot_id} and "
                    f"{'has ended' if ended else 'is too slow'}. It said last:\n{words}"
                )
            time.sleep(0.1)
        return numbers
