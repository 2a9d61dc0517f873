"""Topics in memory for the tests of the source `kafka`: what is planned and read of them, without a broker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakelog.format.types.rowkind import encode_kinds
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.records import EncodedRecords, LogPosition, LogSnapshot, TopicSpec
from writer.pipeline.kafka_spec import KafkaSource, RecordFormat


class Topics:
    """A cluster with topics, in place of the brokers that a source names."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.log = MemoryLog(self.cluster)

    def make(self, name: str = "orders", partitions: int = 1) -> None:
        self.log.open_admin().create_topic(TopicSpec(name, partitions))

    def remake(self, name: str = "orders") -> None:
        self.cluster.delete_topic(name)
        self.make(name)

    def send(
        self,
        *values: bytes | None,
        name: str = "orders",
        partition: int = 0,
        end: str = "commit",
        keys: Sequence[bytes] | None = None,
        kinds: Sequence[str] | None = None,
    ) -> None:
        """In a transaction of its own, whose mark takes an offset too; `end`: `commit`, `abort`, or nothing."""
        producer = self.log.open_producer(name, f"of-{name}", f"group-{name}")
        producer.start()
        producer.begin()
        count = len(values)
        codes = np.asarray(encode_kinds(pa.array(kinds or ["+I"] * count, pa.string())), np.int8)
        given = None if keys is None else pa.array(keys, pa.binary())
        records = EncodedRecords(
            partition, given, pa.array(values, pa.binary()), codes, np.arange(count, dtype=np.int64)
        )
        producer.send(records, LogSnapshot(1, "0" * 32))
        if end == "commit":
            producer.commit(LogPosition(1, "0" * 32))
            producer.close()
        elif end == "abort":
            producer.abort()
            producer.close()


def make_source(
    format_: RecordFormat = RecordFormat.JSON, topics: tuple[str, ...] = ("orders",), **more: object
) -> KafkaSource:
    return KafkaSource(topics, format_, {"kafka.bootstrap.servers": "nowhere:1"}, **more)  # type: ignore[arg-type]


def spans(ranges: Sequence[object]) -> list[tuple[int, int, int]]:
    return [(part.partition, part.start, part.end) for part in ranges]  # type: ignore[attr-defined]
