"""A query over a table's stream whose rows are kept batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Row = dict[str, Any]


class StreamQuery:
    """A stream with a checkpoint; each run takes what is there and ends.

    Args:
        spark: Where it runs.
        table: The table's name.
        checkpoint: A folder.
        options: Of the stream.
    """

    def __init__(self, spark: SparkSession, table: str, checkpoint: Path, **options: Any) -> None:
        self.spark, self.table, self.checkpoint = spark, table, checkpoint
        self.options = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
        self.batches: list[list[Row]] = []

    def load(self) -> DataFrame:
        reader = self.spark.readStream.format("lakelog").option("table", self.table)
        for key, value in self.options.items():
            reader = reader.option(key, value)
        return reader.load()

    def start(self, **trigger: Any) -> StreamingQuery:
        writer = self.load().writeStream.foreachBatch(self._keep).trigger(**trigger)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def run(self) -> list[list[Row]]:
        """Takes what is there; returns the batches that held rows."""
        self.batches = []
        query = self.start(availableNow=True)
        assert query.awaitTermination(120), "it did not end"
        return self.batches

    def rows(self) -> list[Row]:
        return [row for batch in self.run() for row in batch]

    def forget_last_batch(self) -> None:
        """Leaves the checkpoint as a crash behind the sink does: planned, not known as done."""
        commits = sorted((self.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
            path.unlink(missing_ok=True)

    def offsets(self) -> Iterator[Row]:
        """What stands in the checkpoint, batch by batch."""
        for path in sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)):
            yield json.loads(path.read_text().splitlines()[-1])

    def _keep(self, frame: DataFrame, number: int) -> None:
        rows = frame.toArrow().to_pylist()
        if rows:
            self.batches.append(rows)
