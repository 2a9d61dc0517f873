"""What Java reads to start Spark, stored in a file of the user's cache for the next start.

If Java finds some 15,000 classes as it left them the last time (class data sharing), it starts Spark and does two jobs
with less than half of the CPU. Java itself checks whether the file fits it and its jars; if it does not, or does not
exist yet, Java starts without it.

`python -m lakelog.spark.class_archive` makes the file. The first service that finds none starts a separate low-priority
process that makes it (`lakelog.spark.session.class_files.make_in_background`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakelog.embedded.java import java_home
from lakelog.spark.session.class_files import archive_folder, find_files, is_made
from lakelog.spark.session.gateway import find_spark_home, running
from lakelog.spark.session.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETAINED: Final = 3
"""Folders of other Javas and jars that stay; each has some 200 MB. An open folder stays usable for its process."""

_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of the process that makes the file: it is over before Java's second compiler has paid for itself."""


def make(folder: Path) -> None:
    """Makes the file if no other process does. Blocks for half a minute.

    Raises:
        Exception: It cannot be made; the next try is a day later.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "making.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if is_made(folder):
            return
        _clear(folder)
        # Each file has another name until it is complete. The folder has its final name from the start, because the
        # second file stores the place of the first one.
        draft, (base, top) = folder / "draft.jsa", find_files(folder)
        java = str(java_home(os.environ) / "bin" / "java")
        # The file includes Java's own classes too: the Java that comes in a wheel has none.
        subprocess.run(
            [java, *_OPTIONS, "-Xshare:dump", f"-XX:SharedArchiveFile={draft}"], check=True, capture_output=True
        )
        draft.rename(base)
        made_with = ["-Xlog:disable", f"-XX:SharedArchiveFile={base}", f"-XX:ArchiveClassesAtExit={draft}"]
        os.environ["SPARK_SUBMIT_OPTS"] = " ".join([*_OPTIONS, *made_with])
        _use_spark()
        draft.rename(top)


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    others = [other for other in folder.parent.iterdir() if other.is_dir()]
    others.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    for outdated in others[_RETAINED - 1 :]:
        shutil.rmtree(outdated, ignore_errors=True)
    folder.mkdir()


def _use_spark() -> None:
    """Does once what services do repeatedly, so that Java has read its classes, and waits for Java's end."""
    import pyarrow as pa

    spark = build_session("classes", "local[2,2]", {"spark.log.level": "OFF"})
    rows = spark.createDataFrame(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}))
    rows.createOrReplaceTempView("rows")
    joined = spark.sql(
        "SELECT r.k % 2 AS g, count(*), max(s.v) FROM rows r JOIN rows s ON r.k = s.k GROUP BY 1 ORDER BY 1"
    )
    joined.toArrow()
    joined.collect()
    rows.repartition(2, "k").mapInArrow(lambda batches: batches, "k bigint, v string").collect()
    spark.sparkContext.parallelize([1, 2], 2).map(lambda value: value + 1).collect()
    with tempfile.TemporaryDirectory(prefix="ll-classes-") as folder:
        for kind in ("csv", "json", "parquet"):
            rows.write.format(kind).save(f"{folder}/{kind}")
            _follow(spark, kind, f"{folder}/{kind}", f"{folder}/state-{kind}")
        _register_source(spark)
        _follow(spark, "lakelog-classes", None, f"{folder}/state-source")
    spark.stop()
    java = running[-1]
    assert java.stdin is not None
    java.stdin.close()
    java.wait(300)


def _follow(spark: SparkSession, kind: str, path: str | None, state: str) -> None:
    source = spark.readStream.format(kind)
    rows = (source.schema("k bigint, v string") if path else source).load(path)

    def write(batch: object, _: int) -> None:
        batch.mapInArrow(lambda batches: batches, "k bigint, v string").toArrow()  # type: ignore[attr-defined]

    stream = rows.writeStream.option("checkpointLocation", state).foreachBatch(write)
    stream.trigger(availableNow=True).start().awaitTermination()


def _register_source(spark: SparkSession) -> None:
    """A source in Python, as streams have where Java does not read their files (docs/decisions/0026)."""
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"end": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int, str]], dict[str, int]]:
            return iter([(1, "a")] if start["end"] == 0 else []), {"end": 1}

        def readBetweenOffsets(  # noqa: N802
            self, start: dict[str, int], end: dict[str, int]
        ) -> Iterator[tuple[int, str]]:
            return iter([(1, "a")])

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "lakelog-classes"

        def schema(self) -> str:
            return "k bigint, v string"

        def simpleStreamReader(self, schema: object) -> Reader:  # noqa: N802
            return Reader()

    spark.dataSource.register(Source)


def main() -> None:
    """Makes the file for the Java and the Spark that sessions of this process would have."""
    # A user who started a service waits for the service, not for this file, which only makes the next start faster.
    os.nice(19)
    make(archive_folder(find_spark_home()))


if __name__ == "__main__":
    main()
