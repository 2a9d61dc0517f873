"""A Spark session for benchmarks and a meter of wall time, CPU seconds and memory of the whole process tree."""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def session(**conf: str) -> SparkSession:
    """A local[2] session with the settings that lakelog wants."""
    # Workers start with `python3` from PATH unless this is set before the session; the conf spark.pyspark.python had no
    # effect here.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("spark_paths")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", "/tmp/spark_paths/warehouse")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
    )
    for key, value in conf.items():
        builder = builder.config(key.replace("__", "."), value)
    return builder.getOrCreate()


def _tree() -> dict[int, tuple[float, int]]:
    """CPU seconds (with reaped children) and resident bytes of this process and all its descendants, by pid."""
    seen: dict[int, tuple[int, float, int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        seen[int(entry.name)] = (
            int(fields[1]),
            sum(map(int, fields[11:15])) / TICKS_PER_S,
            int(fields[21]) * PAGE_BYTES,
        )
    mine = {os.getpid()}
    while True:
        more = {pid for pid, (parent, _, _) in seen.items() if parent in mine} - mine
        if not more:
            return {pid: seen[pid][1:] for pid in mine if pid in seen}
        mine |= more


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured run."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def measure(work: Callable[[], object]) -> tuple[Reading, object]:
    """Run `work` once; peak memory is the largest sum of resident sizes seen every 50 ms (shared pages count twice)."""
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], sum(rss for _, rss in _tree().values()))

    before = sum(cpu for cpu, _ in _tree().values())
    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        result = work()
    finally:
        wall_s = time.perf_counter() - start
        done.set()
        watcher.join()
    after = sum(cpu for cpu, _ in _tree().values())
    return Reading(wall_s, after - before, peak[0]), result


def compare(
    works: dict[str, Callable[[], object]], pairs: int, check: Callable[[str, object], None], warm_ups: int = 1
) -> dict[str, list[Reading]]:
    """Run all works in turn `pairs` times (the first is the reference), check each answer, print a table of medians."""
    for _ in range(warm_ups):
        for name, work in works.items():
            check(name, work())
    readings: dict[str, list[Reading]] = {name: [] for name in works}
    for _ in range(pairs):
        for name, work in works.items():
            reading, result = measure(work)
            check(name, result)
            readings[name].append(reading)
    reference = next(iter(works))
    print(f"{'':34}{'wall s':>8}{'cpu s':>8}{'peak MB':>9}{'speed':>7}  min..max of the pairs' ratios")
    for name, rs in readings.items():
        ratios = [a.wall_s / b.wall_s for a, b in zip(readings[reference], rs, strict=True)]
        print(
            f"{name:34}{statistics.median(r.wall_s for r in rs):8.3f}{statistics.median(r.cpu_s for r in rs):8.2f}"
            f"{max(r.peak_bytes for r in rs) / 2**20:9.0f}{statistics.median(ratios):7.2f}"
            f"  {min(ratios):.2f}..{max(ratios):.2f}",
            flush=True,
        )
    return readings
