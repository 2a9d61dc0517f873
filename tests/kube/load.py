"""Writes to tables and follows them while their services come and go, then compares. Runs in a pod.

    python -m tests.kube.load SECONDS

The last line of its output is a report in JSON; `problems` is empty if nothing was lost or doubled, and no call failed
in a way that the docs do not name.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import lakelog
from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.sdk.catalog import Catalog
from lakelog.testing.log_recording import Recorder, check_recording

BROKERS: Final = "kafka:9092"
READERS: Final = "reader:7460"
SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])

_WRITERS: Final = 2
_KEYS: Final = 500
_ROWS: Final = 20
_PAUSE_S: Final = 0.1
_GIVE_UP_S: Final = 120.0
_WHOLE_ROWS: Final = 50_000


class Load:
    """The writers, the readers, and what they have seen.

    Args:
        catalog: The catalog.
        name: The prefix of tables and writers, so that several can run.
    """

    def __init__(self, catalog: Catalog, name: str) -> None:
        self._catalog = catalog
        self._name = name
        self.written: Counter[str] = Counter()
        self.seen: dict[str, Counter[str]] = {"directly": Counter(), "through the reader service": Counter()}
        self.errors: Counter[str] = Counter()
        self.problems: list[str] = []
        self.longest_s = 0.0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        catalog.create_database("lab", if_not_exists=True)
        keyed = {
            "bucket": "2",
            "changelog-producer": "lookup",
            "log.system": "kafka",
            "snapshot.num-retained.min": "5000",
        }
        self.keyed = catalog.create_table(f"lab.{name}_keyed", SCHEMA, primary_key=["k"], options=keyed)
        self.queue = catalog.create_table(f"lab.{name}_queue", SCHEMA)

    def run(self, seconds: float) -> None:
        """Runs for some seconds, then until readers and log have everything."""
        folder = Path(tempfile.mkdtemp())
        topic = self._catalog.metastore.get_log(self.keyed.uuid).topic
        with Recorder(BROKERS, topic, folder / "seen.jsonl") as recorder:
            readers = [threading.Thread(target=self._follow, args=(how,), daemon=True) for how in self.seen]
            writers = [threading.Thread(target=self._write, args=(number,)) for number in range(_WRITERS)]
            for thread in readers + writers:
                thread.start()
            self._ended.wait(seconds)
            self._ended.set()
            for thread in writers:
                thread.join()
            self._wait_until("all changes are published", self._is_published)
            for how, seen in self.seen.items():
                self._wait_until(f"{how} all rows arrive", partial(self._has_all, seen))
            recording = recorder.stop()
        findings = check_recording(recording, self.keyed, row=["k", "v"], whole_rows=_WHOLE_ROWS)
        self.problems += [str(finding) for finding in findings]
        self._compare("the table", Counter(self.queue.scan().to_arrow()["v"].to_pylist()))
        for how, seen in self.seen.items():
            self._compare(f"a subscription {how}", seen)

    def report(self) -> dict[str, Any]:
        """What was done, in words and numbers."""
        return {
            "commits": len(self.written),
            "errors": dict(self.errors),
            "longest_s": round(self.longest_s, 2),
            "problems": self.problems,
        }

    def _write(self, number: int) -> None:
        rng = random.Random(number)
        for identifier in range(1, 1 << 30):
            if self._ended.is_set():
                return
            value = f"{number}.{identifier}"
            rows = pa.table({"k": rng.sample(range(_KEYS), _ROWS), "v": [value] * _ROWS}, schema=SCHEMA)
            one = pa.table({"k": [identifier], "v": [value]}, schema=SCHEMA)
            began = time.monotonic()
            writer = f"{self._name}-{number}"
            try:
                self._repeat(partial(self.keyed.upsert, rows, writer=writer, identifier=identifier))
                self._repeat(partial(self.queue.append, one, writer=writer, identifier=identifier))
            except LakelogError as error:
                self.problems.append(f"writer {number}: {type(error).__name__}: {error}")
                return
            with self._lock:
                self.written[value] += 1
                self.longest_s = max(self.longest_s, time.monotonic() - began)
            self._ended.wait(_PAUSE_S)

    def _repeat(self, write: Callable[[], object]) -> None:
        """Repeats a write as docs/writing.md says: the same one, under the same name and number."""
        give_up_s = time.monotonic() + _GIVE_UP_S
        while True:
            try:
                write()
            except (Unavailable, OutcomeUnknown) as error:
                with self._lock:
                    self.errors[type(error).__name__] += 1
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(0.2)
            else:
                return

    def _follow(self, how: str) -> None:
        reader = "" if how == "directly" else READERS
        consumer = f"{self._name}-{'direct' if how == 'directly' else 'served'}"
        seen = self.seen[how]
        while True:
            try:
                with self.queue.subscribe("latest-full", consumer_id=consumer, reader=reader) as stream:
                    for batch in stream:
                        seen.update(batch.data["v"].to_pylist())
            except Unavailable as error:
                # It goes on after the last batch that was done.
                with self._lock:
                    self.errors[f"subscription: {type(error).__name__}"] += 1
                time.sleep(0.2)
            except LakelogError as error:
                self.problems.append(f"a subscription {how}: {type(error).__name__}: {error}")
                return

    def _is_published(self) -> bool:
        state = self._catalog.metastore.get_publish_state(self.keyed.uuid)
        return state.snapshot_id == state.latest_snapshot_id

    def _has_all(self, seen: Counter[str]) -> bool:
        return len(seen) >= len(self.written)

    def _wait_until(self, what: str, holds: Callable[[], bool]) -> None:
        give_up_s = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < give_up_s:
            try:
                if holds():
                    return
            except Unavailable:
                self.errors["Unavailable"] += 1
            time.sleep(0.1)
        self.problems.append(f"after {_GIVE_UP_S:g} s it is not true that {what}")

    def _compare(self, where: str, found: Counter[str]) -> None:
        lost, doubled = set(self.written) - set(found), [value for value, count in found.items() if count > 1]
        phantoms = set(found) - set(self.written)
        for what, values in (("lost", lost), ("doubled", doubled), ("not written", phantoms)):
            if values:
                self.problems.append(f"{where}: {len(values)} rows {what}, such as {sorted(values)[:3]}")


def main() -> int:
    """0: nothing is wrong."""
    with lakelog.connect() as catalog:
        load = Load(catalog, os.environ.get("LOAD_NAME", "load"))
        load.run(float(sys.argv[1]))
    sys.stdout.write(json.dumps(load.report()) + "\n")
    sys.stdout.flush()
    # Subscriptions wait in threads of their own.
    os._exit(1 if load.problems else 0)


if __name__ == "__main__":
    main()
