"""How soon readers see a new row: a subscriber that reads files, and plain Kafka consumers that read logs."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lakelog.demo.plain_consumer import PlainConsumer

if TYPE_CHECKING:
    from lakelog.sdk.catalog import Catalog
    from lakelog.sdk.tables.table import Table

WRITES: Final = 60
WARM_UPS: Final = 10
_EVERY_S: Final = 0.05
_TIMEOUT_S: Final = 60.0
_SCHEMA: Final = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("written_ns", pa.int64())])


def measure_files(catalog: Catalog, name: str) -> float:
    """The median of the milliseconds from a write to its arrival at a subscriber of files; makes the table."""
    table = catalog.create_table(name, _SCHEMA, primary_key=["id"])
    arrivals_ms: list[float] = []
    with table.subscribe("latest") as stream:

        def follow() -> None:
            for batch in stream:
                seen_ns = time.time_ns()
                arrivals_ms.extend((seen_ns - written) / 1e6 for written in batch.data.column("written_ns").to_pylist())
                if len(arrivals_ms) >= WRITES:
                    return

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        _write(table)
        follower.join(_TIMEOUT_S)
    return _median(arrivals_ms)


def measure_log(catalog: Catalog, name: str, brokers: str, folder: Path, consistency: str) -> float:
    """The median of the milliseconds from a write to its arrival at a plain Kafka consumer; makes the table."""
    options = {"log.system": "kafka", "log.consistency": consistency, "kafka.bootstrap.servers": brokers}
    table = catalog.create_table(name, _SCHEMA, primary_key=["id"], options=options)
    consumer = PlainConsumer("arrivals", brokers, catalog.metastore.get_log(table.uuid).topic, folder)
    consumer.start()
    try:
        _write(table)
        lines = consumer.wait_for_lines(WRITES, _TIMEOUT_S)
    finally:
        consumer.kill()
    first_seen: dict[int, float] = {}
    for line in lines:
        first_seen.setdefault(line["id"], line["ms"])
    return _median([first_seen[number] for number in sorted(first_seen)])


def _write(table: Table) -> None:
    for number in range(WRITES):
        table.upsert(pa.table({"id": [number], "written_ns": [time.time_ns()]}, schema=_SCHEMA))
        time.sleep(_EVERY_S)


def _median(arrivals_ms: list[float]) -> float:
    return float(np.median(arrivals_ms[WARM_UPS:]))
