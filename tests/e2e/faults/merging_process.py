"""A client as a process of its own that dies while it merges the small files of its commit.

Its one write goes through the SDK, or, with Spark, through several tasks. Run by `test_killed_merges`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import LocationStores

MERGED = "lab.merged"
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
OPTIONS = {"precommit-compact": "true", "write-buffer-size": "1 kb", "bucket": "3"}
ROWS = 400
STEPS = ("first file", "first deleted", "all deleted")


def mortal(store: Any, step: str) -> ObjectStore:
    """A store under which this process dies at a step of a merge."""
    merged = 0

    def die(at: str) -> None:
        if at == step:
            os.kill(os.getpid(), signal.SIGKILL)

    class MortalStore:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def create(self, path: str) -> Any:
            writer = store.create(path)
            if "merged" not in path:
                return writer

            class MortalWriter:
                def __getattr__(self, name: str) -> Any:
                    return getattr(writer, name)

                def commit(self) -> int:
                    nonlocal merged
                    size: int = writer.commit()
                    merged += 1
                    if merged == 1:
                        die("first file")
                    return size

            return MortalWriter()

        def delete_many(self, paths: Sequence[str]) -> None:
            store.delete(paths[0])
            die("first deleted")
            store.delete_many(paths)
            die("all deleted")

    return MortalStore()


class MortalStores:
    """The real stores, under which this process dies."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._inner = LocationStores()

    def open(self, location: str) -> ObjectStore:
        return mortal(self._inner.open(location), self._step)


def write_by_sdk(target: str, step: str) -> None:
    """One write of rows that fill the buffer many times."""
    with Catalog(GrpcMetastore(target), MortalStores(step)) as catalog:
        rows = pa.table({"k": range(ROWS), "v": [f"value {row}" for row in range(ROWS)]}, schema=SCHEMA)
        catalog.table(MERGED).upsert(rows, writer="w", identifier=1)


def write_by_spark(target: str, folder: str, step: str) -> None:
    """One write of many tasks, whose files the driver program merges."""
    import lakelog.spark
    from lakelog.spark.batch import commit, given_rows

    spark = lakelog.spark.build_session(
        "killed", "local[2]", {"spark.sql.warehouse.dir": f"{folder}/wh", "spark.log.level": "OFF"}
    )
    lakelog.spark.install(spark, target)
    whole: Any = vars(commit)["merge_commit_files"]
    vars(commit)["merge_commit_files"] = lambda merger, store, *more, **further: whole(
        merger, mortal(store, step), *more, **further
    )
    vars(given_rows)["MAX_ROWS"] = -1
    rows = spark.range(0, ROWS, numPartitions=8).selectExpr("id k", "concat('value ', id) v")
    lakelog.spark.write(rows, MERGED, writer="w", identifier=1)


if __name__ == "__main__":
    write_by_spark(*sys.argv[1:])
