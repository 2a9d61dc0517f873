"""A stream reader asked what Spark asks it, without Spark: the same calls, the same pickling, in this process."""

from __future__ import annotations

import json
import pickle
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit

from lakelog.spark.connection import SparkConnection
from lakelog.spark.data_source import LakelogSource
from lakelog.spark.stream.reader import LakelogStreamReader

Row = dict[str, Any]
Offset = dict[str, Any]


class DrivenStream:
    """A query: offsets and which batches are done outlive its restarts.

    Args:
        target: Of the metastore.
        table: The table's name.
        options: Of the stream.
    """

    def __init__(self, target: str, table: str, options: dict[str, str] | None = None) -> None:
        self.target, self.table = target, table
        self.options = options or {}
        self.offsets: list[Offset] = []
        self.reader: LakelogStreamReader | None = None

    def start(self) -> None:
        """Loads the stream and starts the query, as a new program does."""

        class Source(LakelogSource):
            connection = SparkConnection(self.target, tls=False)

        # Spark hands options on in lower case.
        options = {"table": self.table, "lakelog-stream": "true"} | {k.lower(): v for k, v in self.options.items()}
        source = Source(options)
        self.schema = source.schema()
        self.reader = source.streamReader(self.schema)

    def run(self) -> list[list[Row]]:
        """All batches until there is nothing to show, as AvailableNow does."""
        self.start()
        assert self.reader is not None
        self.reader.prepareForTriggerAvailableNow()
        if not self.offsets:
            self.offsets.append(_written(self.reader.initialOffset()))
        limit = self.reader.getDefaultReadLimit()
        batches = []
        while self.advance(limit):
            batches.append(self.show(len(self.offsets) - 2))
        return batches

    def advance(self, limit: ReadLimit) -> bool:
        """Plans the next batch; False: there is none."""
        assert self.reader is not None
        end = _written(self.reader.latestOffset(self.offsets[-1], limit))
        if end == self.offsets[-1]:
            return False
        self.offsets.append(end)
        return True

    def show(self, batch: int) -> list[Row]:
        """The rows of a batch, task by task."""
        return [row for task in self.show_tasks(batch) for row in task]

    def show_tasks(self, batch: int) -> list[list[Row]]:
        assert self.reader is not None
        read = pickle.loads(pickle.dumps(self.reader)).read
        splits = self.reader.partitions(self.offsets[batch], self.offsets[batch + 1])
        travelled = [pickle.loads(pickle.dumps(split)) for split in splits]
        return [[row for rows in read(split) for row in rows.to_pylist()] for split in travelled]


def _written(offset: Offset) -> Offset:
    """As it comes back from the checkpoint."""
    return dict(json.loads(json.dumps(offset)))


def read_driven(target: str, table: str, options: dict[str, str]) -> list[Row]:
    """The rows of a batch read, task by task."""

    class Source(LakelogSource):
        connection = SparkConnection(target, tls=False)

    source = Source({"table": table} | options)
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    splits = [pickle.loads(pickle.dumps(split)) for split in source.reader(schema).partitions()]
    rows = [row for split in splits for batch in reader.read(split) for row in batch.to_pylist()]
    assert all(list(row) == schema.names for row in rows)
    return rows
