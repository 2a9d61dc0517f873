"""Has every service do a unit of work again and again, and notes when each began and was done. Runs in a pod.

    python -m bench.kube.probe SECONDS

The units: a commit (metastore), a row in Kafka (publisher), an attached changelog (compactor), a row at a subscription
through the reader service (reader), a row of a pipeline that reads Kafka (writer). A unit goes on until it is done, so
that one that a dead service keeps waiting says for how long. The last line of its output is a list in JSON for each
service: pairs of seconds since the epoch.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

import lakelog
from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

_BROKERS: Final = "kafka:9092"
_READERS: Final = "reader:7460"
_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
_PAUSE_S: Final = 0.05
_POLL_S: Final = 0.01


class Probe:
    """The units, and what was noted.

    Args:
        catalog: The catalog.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._ended = threading.Event()
        self.done: dict[str, list[tuple[float, float]]] = {}
        catalog.create_database("probe", if_not_exists=True)
        self._plain = self._make("plain", {})
        self._logged = self._make("logged", {"log.system": "kafka"})
        self._keyed = self._make(
            "keyed", {"changelog-producer": "lookup", "lookup-wait": "false", "bucket": "1"}, key=True
        )
        self._followed = self._make("followed", {})

    def run(self, seconds: float) -> None:
        """Runs all units side by side for so long."""
        units = {
            "metastore": self._commit,
            "publisher": self._publish,
            "compactor": self._attach,
            "reader": self._follow,
            "writer": self._ingest,
        }
        threads = [
            threading.Thread(target=self._repeat, args=(name, begin()), daemon=True) for name, begin in units.items()
        ]
        for thread in threads:
            thread.start()
        self._ended.wait(seconds)
        self._ended.set()
        for thread in threads:
            thread.join(5)

    def _make(self, name: str, options: dict[str, str], *, key: bool = False) -> Table:
        # A probe before this one may have left it.
        self._catalog.drop_table(f"probe.{name}", if_exists=True)
        return self._catalog.create_table(f"probe.{name}", _SCHEMA, primary_key=["k"] if key else [], options=options)

    def _repeat(self, name: str, unit: Callable[[int], None]) -> None:
        noted = self.done.setdefault(name, [])
        for number in range(1, 1 << 30):
            if self._ended.is_set():
                return
            began_s = time.time()
            unit(number)
            if not self._ended.is_set():
                noted.append((began_s, time.time()))
            self._ended.wait(_PAUSE_S)

    def _append(self, table: Table, number: int, writer: str) -> None:
        """Repeats a write under its name and number until it is there."""
        rows = pa.table({"k": [number], "v": [number]}, schema=_SCHEMA)
        while not self._ended.is_set():
            try:
                write = table.upsert if table.primary_key else table.append
                write(rows, writer=writer, identifier=number)
            except (Unavailable, OutcomeUnknown):
                time.sleep(_POLL_S)
            else:
                return

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        while not self._ended.is_set():
            try:
                if holds():
                    return
            except Unavailable:
                pass
            time.sleep(_POLL_S)

    def _commit(self) -> Callable[[int], None]:
        return lambda number: self._append(self._plain, number, f"plain-{os.getpid()}")

    def _publish(self) -> Callable[[int], None]:
        metastore = self._catalog.metastore
        self._wait_until(lambda: metastore.get_log(self._logged.uuid).topic != "")
        topic = metastore.get_log(self._logged.uuid).topic
        settings = {"bootstrap.servers": _BROKERS, "group.id": "probe", "isolation.level": "read_committed"}
        consumer = Consumer({**settings, "allow.auto.create.topics": "false"})
        consumer.assign([TopicPartition(topic, 0, 0)])

        def publish(number: int) -> None:
            self._append(self._logged, number, f"logged-{os.getpid()}")
            while not self._ended.is_set():
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    return

        return publish

    def _attach(self) -> Callable[[int], None]:
        find_newest = partial(self._catalog.metastore.list_snapshots, self._keyed.uuid, limit=1)

        def attach(number: int) -> None:
            self._append(self._keyed, number, f"keyed-{os.getpid()}")
            newest: list[int] = []

            def is_attached() -> bool:
                if not newest:
                    newest.extend(self._keyed.snapshots(1).column("id").to_pylist())
                return find_newest().complete_until >= newest[0]

            self._wait_until(is_attached)

        return attach

    def _follow(self) -> Callable[[int], None]:
        seen: set[int] = set()
        threading.Thread(target=self._receive, args=(seen,), daemon=True).start()

        def follow(number: int) -> None:
            self._append(self._followed, number, f"followed-{os.getpid()}")
            self._wait_until(lambda: number in seen)

        return follow

    def _receive(self, seen: set[int]) -> None:
        while not self._ended.is_set():
            try:
                with self._followed.subscribe("latest-full", reader=_READERS) as stream:
                    for batch in stream:
                        seen.update(batch.data["k"].to_pylist())
            except LakelogError:
                time.sleep(_POLL_S)

    def _ingest(self) -> Callable[[int], None]:
        producer = Producer({"bootstrap.servers": _BROKERS, "linger.ms": 0})
        base = time.time_ns()
        table = self._catalog.table("demo.events")

        def ingest(number: int) -> None:
            key = base + number
            producer.produce("events", key=str(key), value=json.dumps({"id": key, "name": "probe", "amount": 0.5}))
            producer.flush(10)
            self._wait_until(lambda: table.scan(filter="id = :id", params={"id": key}).count() == 1)

        return ingest


def main() -> int:
    """Runs the probe."""
    with lakelog.connect() as catalog:
        probe = Probe(catalog)
        sys.stderr.write("begun\n")
        probe.run(float(sys.argv[1]))
    sys.stdout.write(json.dumps(probe.done) + "\n")
    sys.stdout.flush()
    # Subscriptions and consumers wait in threads of their own.
    os._exit(0)


if __name__ == "__main__":
    main()
