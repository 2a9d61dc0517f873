"""The topic as a streaming source of Spark: an offset is the number of batches planned, a row is a range to read.

This code runs in processes that Spark starts on the driver's machine (planning) and on executors (`read`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lakelog.errors import DataCorrupted, LakelogError
from lakelog.spark.task_errors import errors_to_driver
from lakelog.without_pandas import leave_pandas_out

from ..drained import DrainedPause
from ..pipeline.kafka_spec import KafkaSource
from .offset_log import BatchOffsets, OffsetLog, TopicRanges
from .ranges import OffsetRange, plan_ranges, split_ranges
from .tasks import TAKEN_DDL, TAKEN_SCHEMA, TakenRange
from .topic import Topic, TopicOffsets, check_id, find_starts

SOURCE_NAME: Final = "lakelog-kafka"


def source_options(source: KafkaSource, log_folder: Path, splits: int) -> dict[str, str]:
    """The options that Spark passes to the source: pickled description, log folder, tasks for each batch."""
    return {"source": pickle.dumps(source).hex(), "log_folder": str(log_folder), "splits": str(splits)}


def register_source(spark: SparkSession) -> None:
    """Registers the source with a session."""
    spark.dataSource.register(KafkaDataSource)


class KafkaDataSource(DataSource):
    """The source's entry point for Spark."""

    @classmethod
    def name(cls) -> str:
        """The source's name for `readStream.format`."""
        return SOURCE_NAME

    def schema(self) -> str:
        """One row for each range."""
        return TAKEN_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader, which plans batches and reads them."""
        # Spark calls this in a process that it starts for this stream alone.
        leave_pandas_out()
        return KafkaStreamReader(self.options)


class KafkaPartition(InputPartition):
    """The ranges of one task."""

    def __init__(self, ranges: Sequence[TakenRange]) -> None:
        super().__init__(tuple(ranges))


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches. Offset `{"batches": n}`: batches 0 to n - 1 are planned; each Spark batch takes exactly one.

    Args:
        options: As in `source_options`.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._source: KafkaSource = pickle.loads(bytes.fromhex(options["source"]))
        self._log = OffsetLog(Path(options["log_folder"]))
        self._splits = int(options["splits"])
        self._topics = [Topic(self._source, name) for name in self._source.topics]
        self._frozen: list[TopicOffsets] | None = None
        self._pause = DrainedPause(options)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The offset before all batches."""
        return {"batches": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limits the query to what exists now."""
        with errors_to_driver():
            self._frozen = self._read_offsets()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Plans the next batch, if there are records that no batch took; blocks until the brokers answer."""
        with errors_to_driver():
            try:
                first = start["batches"]
                if self._pause.is_due(first):
                    return start
                end = self.plan_next(first)
                if end > first:
                    self._pause.note(end, self._get_batch(first).after.lag)
                return {"batches": end}
            except LakelogError:
                # Whatever was wrong, the next try begins with new connections and with the credentials of that moment.
                self.stop()
                raise

    def plan_next(self, batch_id: int) -> int:
        """Plans a batch, if there are records that no batch took, and returns how many batches are planned then."""
        # Planned before a crash, but unknown to Spark: it must stay as it is, in case any process saw its log.
        if self._log.read(batch_id) is not None:
            return batch_id + 1
        known = self._frozen or self._read_offsets()
        pairs = list(zip(self._topics, known, strict=True))
        begun = self._log.read_start() or self._log.write_start(
            [topic.find_start(topic_offsets) for topic, topic_offsets in pairs]
        )
        # By name: topics may change their order in the pipeline's file.
        ids = {each.topic: each.topic_id for each in begun}
        read_to, taken = {each.topic: each.offsets for each in begun}, 0
        if batch_id > 0:
            last = self._get_batch(batch_id - 1)
            read_to, taken = {each.topic: each.ends for each in last.topics}, last.taken_before + last.size
        waiting: list[OffsetRange] = []
        for topic, topic_offsets in pairs:
            check_id(topic.name, ids[topic.name], topic_offsets.topic_id)
            starts = find_starts(topic.name, read_to[topic.name], topic_offsets)
            waiting += [
                OffsetRange(topic.name, partition, start, end)
                for partition, (start, end) in enumerate(zip(starts, topic_offsets.ends, strict=True))
            ]
        if not any(part.size for part in waiting):
            return batch_id
        ranges = plan_ranges(waiting, self._source.max_records_per_batch)
        topics = tuple(
            TopicRanges(
                topic.name,
                topic_offsets.topic_id,
                tuple(p for p in ranges if p.topic == topic.name),
                topic_offsets.ends,
            )
            for topic, topic_offsets in pairs
        )
        self._log.plan(BatchOffsets(batch_id, topics, taken))
        return batch_id + 1

    def _read_offsets(self) -> list[TopicOffsets]:
        return [topic.read_offsets() for topic in self._topics]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The batch's ranges, neighbours together, in order."""
        partitions: list[InputPartition] = []
        with errors_to_driver():
            for batch_id in range(start["batches"], end["batches"]):
                batch = self._get_batch(batch_id)
                number = 0
                ids = {topic.topic: topic.topic_id for topic in batch.topics}
                for group in split_ranges(batch.ranges, self._splits):
                    taken = [
                        TakenRange(batch_id, number + place, part.topic, ids[part.topic], *_bounds(part))
                        for place, part in enumerate(group)
                    ]
                    partitions.append(KafkaPartition(taken))
                    number += len(taken)
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The ranges of a task. Runs on executors."""
        yield pa.RecordBatch.from_pylist([asdict(part) for part in partition.value], schema=TAKEN_SCHEMA)

    def commit(self, end: dict[str, int]) -> None:
        """Records that batches before `end` are done for good."""
        self._log.prune(end["batches"])

    def stop(self) -> None:
        """Ends all connections."""
        for topic in self._topics:
            topic.close()

    def _get_batch(self, batch_id: int) -> BatchOffsets:
        batch = self._log.read(batch_id)
        if batch is None:
            raise DataCorrupted(f"The checkpoint has no log of batch {batch_id}: it was changed. Restore it.")
        return batch


def _bounds(part: OffsetRange) -> tuple[int, int, int]:
    return part.partition, part.start, part.end
