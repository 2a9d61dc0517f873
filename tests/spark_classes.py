"""What Java reads to start Spark, kept in a file for the next start.

A Java that finds some 15,000 classes as it left them the last time (class data sharing) starts Spark and does two jobs
with 4.4 s of CPU instead of 10.6, and tests start Spark dozens of times. Java itself looks whether the file fits it and
its jars; where it does not, or is not there yet, it starts without.

`python -m tests.spark_classes` makes the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from lakelog.embedded.java import java_home

ROOT = Path(__file__).parents[1]

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""What runs for seconds or minutes is over before Java's second compiler has paid for itself. A session and two jobs
take 10 s of CPU instead of 21, sixty jobs more 21 instead of 48."""


def options_with_classes() -> str:
    """Options for Spark's Java in tests. That no file fits is nothing to talk of in logs that tests read."""
    base, top = _find_files(_find_folder())
    return f"{JAVA_OPTIONS} -Xlog:disable -XX:SharedArchiveFile={base}:{top}"


def start_making() -> subprocess.Popen[bytes] | None:
    """Makes the file in a process of its own, which takes half a minute once on a machine; None: it is there."""
    if _is_made(_find_folder()):
        return None
    command = [sys.executable, "-m", "tests.spark_classes"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


def _find_folder() -> Path:
    """For this Java and these jars: each other one has another folder."""
    environment = os.environ
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(
        environment.get("HOME") or tempfile.gettempdir(), ".cache"
    )
    java = java_home(environment) / "bin" / "java"
    jars = Path(pyspark.__file__).parent / "jars"
    known = [(place.resolve(), place.stat().st_mtime_ns) for place in (java, jars)]
    name = hashlib.sha256(repr([*known, JAVA_OPTIONS]).encode()).hexdigest()[:12]
    return Path(cache) / "lakelog" / "test-spark-classes" / name


def _find_files(folder: Path) -> tuple[Path, Path]:
    """Java's own classes are in a file of ours too: the Java that comes in a wheel has none."""
    return folder / "java.jsa", folder / "spark.jsa"


def _is_made(folder: Path) -> bool:
    return _find_files(folder)[1].exists()


def _make(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "making.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if _is_made(folder):
            return
        for outdated in folder.parent.iterdir():
            # 200 MB each. Who has one open keeps it.
            if outdated.is_dir():
                shutil.rmtree(outdated)
        folder.mkdir()
        # Each under another name until it is whole. The folder has its own from the first: the second file knows the
        # first one by its place.
        draft, (base, top) = folder / "draft.jsa", _find_files(folder)
        java = str(java_home(os.environ) / "bin" / "java")
        dump = [java, *JAVA_OPTIONS.split(), "-Xshare:dump", f"-XX:SharedArchiveFile={draft}"]
        subprocess.run(dump, check=True, capture_output=True)
        draft.rename(base)
        made_with = f"-Xlog:disable -XX:SharedArchiveFile={base} -XX:ArchiveClassesAtExit={draft}"
        os.environ["SPARK_SUBMIT_OPTS"] = f"{JAVA_OPTIONS} {made_with}"
        _use_spark()
        draft.rename(top)


def _use_spark() -> None:
    """Does once what tests do again and again, so that Java has read its classes, and waits for Java's end."""
    import pyarrow as pa

    import lakelog.spark
    from lakelog.spark.gateway import _running

    spark = lakelog.spark.build_session("classes", "local[2,2]", {"spark.log.level": "OFF"})
    rows = spark.createDataFrame(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}))
    rows.createOrReplaceTempView("rows")
    joined = spark.sql(
        "SELECT r.k % 2 AS g, count(*), max(s.v) FROM rows r JOIN rows s ON r.k = s.k GROUP BY 1 ORDER BY 1"
    )
    joined.toArrow()
    joined.collect()
    rows.mapInArrow(lambda batches: batches, "k bigint, v string").collect()
    spark.sparkContext.parallelize([1, 2], 2).map(lambda value: value + 1).collect()
    with tempfile.TemporaryDirectory(prefix="ll-classes-") as folder:
        for kind in ("csv", "json", "parquet"):
            rows.write.format(kind).save(f"{folder}/{kind}")
            source = spark.readStream.schema("k bigint, v string").format(kind).load(f"{folder}/{kind}")
            query = (
                source.writeStream.option("checkpointLocation", f"{folder}/state-{kind}")
                .foreachBatch(lambda batch, _: batch.toArrow())
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
    spark.stop()
    java = _running[-1]
    assert java.stdin is not None
    java.stdin.close()
    java.wait(300)


if __name__ == "__main__":
    _make(_find_folder())
