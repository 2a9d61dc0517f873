"""W7 and W8 through Spark: how fast a stream out of a table catches up, and how soon it shows a commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from bench.context import Bench
from bench.expected import check_equal
from bench.measure import Figure, WrongAnswerError, absolute, compare
from bench.shapes import q1, q1_schema
from bench.spark.stack import WARM_UPS, SparkBench, open_spark
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.sdk.tables.table import Table
from lakelog.spark.installation import installation_of

_SNAPSHOTS: Final = 500
_ROWS: Final = 20_000
_SUMS: Final = ("count(*)", "sum(id)", "sum(v0 % 1000)", "sum(hash(name))")
_SECONDS: Final = 40
_EVERY_S: Final = 0.1
_SMALL_ROWS: Final = 100
_WARM_UP_COMMITS: Final = 100
_WARM_UP_SECONDS: Final = 5
_REFERENCE_S: Final = 15.0
_PHASES: Final = ("triggerExecution", "latestOffset", "walCommit", "queryPlanning", "addBatch", "commitOffsets")


def measure_catch_up(bench: Bench) -> Iterator[Figure]:
    """An append table, and the changelog of one that looks old rows up; the reference reads the same files at once."""
    snapshots = bench.scaled(_SNAPSHOTS)
    with open_spark(bench) as on:
        appended = on.catalog.create_table("b.a", q1_schema())
        options = {"bucket": "2", "changelog-producer": "lookup"}
        keyed = on.catalog.create_table("b.k", q1_schema(), primary_key=["id"], options=options)
        random = np.random.default_rng(1)
        for number in range(snapshots):
            appended.append(q1(np.arange(number * _ROWS, (number + 1) * _ROWS), number))
            keyed.upsert(q1(np.sort(random.choice(snapshots * _ROWS // 5, _ROWS, replace=False)), number))
        for label, table, target in (("append table", appended, 0.85), ("changelog of a keyed table", keyed, 0.5)):
            yield compare(
                f"catch-up, {label}, Spark",
                _catch_up(on, table),
                _read_files(on, table, snapshots),
                pairs=bench.pairs,
                warm_ups=WARM_UPS,
                target=target,
            )


def _catch_up(on: SparkBench, table: Table) -> Callable[[], Hashable]:
    runs = iter(range(1 << 30))

    def read() -> Callable[[], Hashable]:
        found: list[tuple[int, ...]] = []

        def take(rows: DataFrame, _: int) -> None:
            found.append(tuple(rows.selectExpr(*_SUMS).collect()[0]))

        stream = _stream(on, table, "from-snapshot", {"scan.snapshot-id": "1"})
        checkpoint = on.folder / f"checkpoint-{table.name}-{next(runs)}"
        query = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
        query.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
        return lambda: tuple(int(sum(part)) for part in zip(*found, strict=True))

    return read


def _stream(on: SparkBench, table: Table, mode: str, options: dict[str, str]) -> DataFrame:
    reader = on.spark.readStream.format("lakelog").option("table", table.name).option("scan.mode", mode)
    return reader.options(**options).load()


def _read_files(on: SparkBench, table: Table, snapshots: int) -> Callable[[], Hashable]:
    is_changelog = bool(table.primary_key)
    request = PlanRequest(table.uuid, InRange(0, snapshots), changelog=is_changelog)
    files = installation_of(on.spark).metastore.plan(request).files.column("path").to_pylist()
    paths = [Path(table.location.removeprefix("file://")) / path for path in files]

    def read() -> Callable[[], Hashable]:
        found = tuple(int(part) for part in on.read(*paths).selectExpr(*_SUMS).collect()[0])
        return lambda: found

    return read


def measure_freshness(bench: Bench) -> Iterator[Figure]:
    """From a commit to the end of the micro-batch that holds it, beside a micro-batch of Spark's own source."""
    with open_spark(bench) as on:
        seconds = bench.scaled(_SECONDS)
        busy, busy_phases = _measure(on, "busy", _EVERY_S, int(seconds / _EVERY_S), _WARM_UP_COMMITS)
        calm, calm_phases = _measure(on, "calm", 1.0, seconds, _WARM_UP_SECONDS)
        # After ours, when Java has compiled what both run.
        plain_phases = _micro_batch_phases(on, seconds)
        plain_ms = plain_phases["triggerExecution"]
        yield absolute("micro-batch of rate-micro-batch, p50", "ms", [plain_ms])
        for label, latencies_ms in (("ten commits a second", busy), ("one commit a second", calm)):
            p50, p95 = np.percentile(latencies_ms, [50, 95])
            yield absolute(f"append table, Spark stream, {label}, p50", "ms", [float(p50)], target=1.3 * plain_ms)
            yield absolute(f"append table, Spark stream, {label}, p95", "ms", [float(p95)])
        for label, phases in (("ten a second", busy_phases), ("one a second", calm_phases), ("plain", plain_phases)):
            for phase, value in phases.items():
                yield absolute(f"phase {phase}, {label}, p50", "ms", [value])


def _micro_batch_phases(on: SparkBench, seconds: float) -> dict[str, float]:
    """The median times of a micro-batch of Spark's own source with as many rows, by phase."""
    stream = on.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", str(_SMALL_ROWS)).load()

    def count(rows: DataFrame, _: int) -> None:
        rows.selectExpr("count(*)").collect()

    query = stream.writeStream.foreachBatch(count)
    running = query.option("checkpointLocation", str(on.folder / "rate")).start()
    time.sleep(max(_REFERENCE_S, seconds))
    running.stop()
    return _phases(running)


def _phases(query: StreamingQuery) -> dict[str, float]:
    """The median time of each phase of the later half of the known micro-batches with rows, in milliseconds."""
    known = [each["durationMs"] for each in query.recentProgress if each["numInputRows"]]
    return {phase: float(np.median([each.get(phase, 0) for each in known[len(known) // 2 :]])) for phase in _PHASES}


def _measure(
    on: SparkBench, name: str, every_s: float, commits: int, warm_ups: int
) -> tuple[list[float], dict[str, float]]:
    """The latencies of commits at a rate, without those that only warm up, and the phases of micro-batches."""
    commits += warm_ups
    table = on.catalog.create_table(f"b.{name}", q1_schema())
    table.append(q1(np.arange(_SMALL_ROWS), 0))
    committed_s: list[float] = []
    received_s: list[float] = []
    seen = 0
    done = threading.Event()

    def take(rows: DataFrame, _: int) -> None:
        nonlocal seen
        seen += int(rows.selectExpr("count(*)").collect()[0][0])
        now_s = time.perf_counter()
        received_s.extend([now_s] * (seen // _SMALL_ROWS - len(received_s)))
        if len(received_s) == commits:
            done.set()

    stream = _stream(on, table, "latest", {})
    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(on.folder / name)).start()
    # The first micro-batch must be over, so that nothing is missed.
    while not query.recentProgress:
        time.sleep(0.1)
    next_s = time.perf_counter()
    for number in range(commits):
        time.sleep(max(0.0, next_s - time.perf_counter()))
        next_s += every_s
        table.append(q1(np.arange(_SMALL_ROWS), number + 1))
        committed_s.append(time.perf_counter())
    if not done.wait(60.0):
        raise WrongAnswerError(f"{len(received_s)} of {commits} commits were received.")
    query.stop()
    check_equal("rows received", seen, commits * _SMALL_ROWS)
    latencies_ms = [(there - here) * 1000 for here, there in zip(committed_s, received_s, strict=True)]
    return latencies_ms[warm_ups:], _phases(query)
