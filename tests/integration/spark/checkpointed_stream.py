"""A stream of Spark into a table, which can be stopped and taken up again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.sdk.tables.table import Table

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


class Stream:
    """A stream of Parquet files into a table; each run takes what is there and ends."""

    def __init__(self, spark: SparkSession, table: Table, folder: Path, form: str) -> None:
        self.spark, self.table, self.form = spark, table, form
        self.inbox, self.checkpoint = folder / "in", folder / "checkpoint"
        self.inbox.mkdir()
        self.seconds = 1_700_000_000

    def put(self, name: str, ks: list[int], v: int) -> None:
        path = self.inbox / f"{name}.parquet"
        pq.write_table(pa.table({"k": ks, "v": [v] * len(ks)}, schema=SCHEMA), path)
        # Spark takes files by their times.
        self.seconds += 1
        os.utime(path, (self.seconds, self.seconds))

    def run(self, **more: Any) -> None:
        df = self.spark.readStream.schema("k bigint, v bigint").option("maxFilesPerTrigger", 1).parquet(str(self.inbox))
        if self.form == "write_stream":
            query = lakelog.spark.write_stream(
                df,
                self.table.name,
                checkpoint_location=str(self.checkpoint),
                trigger={"availableNow": True},
                commit_user=more.get("commit-user"),
                fill_missing=more.get("fill-missing") == "true",
            )
        else:
            writer = df.writeStream.format("lakelog").option("table", self.table.name).trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(self.checkpoint))
            for key, value in more.items():
                writer = writer.option(key, value)
            query = writer.start()
        query.awaitTermination(120)
        assert not query.isActive

    def forget_last_batch(self) -> None:
        """Leaves the checkpoint as a crash behind the sink's commit does: planned, not known as done."""
        commits = sorted((self.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
            path.unlink(missing_ok=True)
