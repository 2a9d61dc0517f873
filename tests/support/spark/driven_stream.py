"""A stream reader asked what Spark asks it, without Spark: the same calls, the same pickling, in this process."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadLimit

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.tables.table import Table
from lakelog.spark.connection import SparkConnection
from lakelog.spark.source.data_source import LakelogSource
from lakelog.spark.stream.reader import LakelogStreamReader

STREAMED = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
"""The columns of most tables that are streamed."""

Row = dict[str, Any]
Emitted = tuple[Any, ...]
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


def put(*rows: tuple[int, str | None]) -> pa.Table:
    """Rows to write."""
    return pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]}, schema=STREAMED)


def emitted(rows: list[Row]) -> list[Emitted]:
    """The rows by snapshot and key, `-U` before `+U`."""
    order = ["-D", "-U", "+U", "+I"]
    rows = sorted(rows, key=lambda row: (row["_snapshot_id"], row["k"], order.index(row.get("_row_kind", "+I"))))
    return [tuple(row[name] for name in ("_snapshot_id", "_row_kind", "k", "v") if name in row) for row in rows]


def stream_of(stack: EmbeddedStack, table: Table, **options: str) -> DrivenStream:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return DrivenStream(stack.target, table.name, {"metadata-columns": "_snapshot_id"} | named)


def flat(batches: list[list[Row]]) -> list[Emitted]:
    return emitted([row for batch in batches for row in batch])
