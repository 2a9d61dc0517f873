"""Runs the demo's plain Kafka consumers as processes: they know nothing of lakelog."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lakelog.demo import kafka_consumers
from lakelog.embedded.spawn import spawn_child
from lakelog.errors import Unavailable


class PlainConsumer:
    """Runs a file of `lakelog.demo.kafka_consumers` by its path.

    Args:
        program: The file's name without its ending.
        brokers: Bootstrap servers.
        topic: The topic that it follows.
        folder: The folder for its results and its log.
    """

    def __init__(self, program: str, brokers: str, topic: str, folder: Path) -> None:
        self._command = [
            sys.executable,
            str(Path(kafka_consumers.__file__).with_name(f"{program}.py")),
            brokers,
            topic,
            str(folder / f"{program}-{topic}.json"),
        ]
        self.file = folder / f"{program}-{topic}.json"
        self._log = folder / "logs" / f"{program}-{topic}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = spawn_child(self._command, log=log)

    def kill(self) -> None:
        """Kills it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def check(self) -> None:
        """Raises Unavailable, with its last lines, if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            words = self._log.read_text(encoding="utf-8")[-1000:]
            raise Unavailable(f"The Kafka consumer has ended. It said last:\n{words}")

    def read_numbers(self) -> dict[str, dict[str, int]]:
        """Its present numbers of the flights, without zeros; the file is always complete."""
        if not self.file.exists():
            return {}
        known: dict[str, dict[str, int]] = json.loads(self.file.read_text(encoding="utf-8"))["numbers"]
        return {
            name: {key: number for key, number in sorted(by_key.items()) if number} for name, by_key in known.items()
        }

    def wait_for_offsets(self, offsets: Sequence[int], timeout_s: float) -> None:
        """Waits until it has read all records before these offsets, by partition; Unavailable: not in time."""
        end_s = time.monotonic() + timeout_s
        while True:
            self.check()
            known = json.loads(self.file.read_text(encoding="utf-8"))["offsets"] if self.file.exists() else {}
            if all(known.get(str(partition), 0) >= offset for partition, offset in enumerate(offsets)):
                return
            if time.monotonic() > end_s:
                raise Unavailable(f"The Kafka consumer is at {known} of {list(offsets)} after {timeout_s:.0f} s.")
            time.sleep(0.1)

    def wait_for_lines(self, count: int, timeout_s: float) -> list[dict[str, Any]]:
        """Waits until its file has so many lines of JSON, and returns them; Unavailable: not in time."""
        end_s = time.monotonic() + timeout_s
        while True:
            self.check()
            lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []
            if len(lines) >= count:
                return [json.loads(line) for line in lines]
            if time.monotonic() > end_s:
                raise Unavailable(f"The Kafka consumer has seen {len(lines)} of {count} rows in {timeout_s:.0f} s.")
            time.sleep(0.05)
