"""CLUSTER: a pipeline, a compaction and lookup changelogs on one worker of a standalone cluster, and on two.

Each worker has one core, an address and folders of its own, and lakelog from the wheel. The warehouse is an S3 server.
Services run as processes, as users start them; `spark.cores.max` says how many workers one gets. "Ours" are two
workers, the reference is one, in turn. A ratio of 2 would be perfect, but driver, metastore, Postgres and S3 server
share the machine. The first batch and the first job of a process do not count, as Java and Python start in them.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

import lakelog
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError
from lakelog.embedded.stack import EmbeddedStack
from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY, JobState, to_bucket_scope
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.store import S3Settings
from tests.support.s3.seaweedfs import running_s3
from tests.support.spark.standalone import StandaloneCluster, build_wheel, s3_variables

BATCH_ROWS: Final = 1_000_000
FILES_A_BATCH: Final = 4
BATCHES: Final = 4
JOB_FILES: Final = 12
JOB_BYTES: Final = 84 << 20
"""Above the size up to which a compactor does a job in its own process."""
JOBS: Final = 4
_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string()), ("w", pa.float64())])
_WITHIN_S: Final = 300.0
MOST_PAIRS: Final = 3
"""Each run starts a service with its Spark."""

Popen = subprocess.Popen[bytes]


@dataclass(frozen=True)
class Lab:
    """A metastore on S3, and a cluster of two workers."""

    folder: Path
    catalog: Catalog
    target: str
    s3: S3Settings
    cluster: StandaloneCluster

    @contextmanager
    def service(self, run: str, workers: int, name: str, *arguments: str) -> Iterator[tuple[Popen, Path]]:
        """A service whose Spark has so many workers of the cluster, with its log."""
        folder = _made(self.folder / f"driver-{run}")
        given = {**self.cluster.conf, "spark.cores.max": str(workers)}
        conf = [word for key, value in given.items() for word in ("--spark-conf", f"{key}={value}")]
        command = [sys.executable, "-m", f"lakelog.services.{name}", *arguments, *conf]
        environment = {**self.cluster.driver_environment(folder, self.s3), "LAKELOG_TARGET": self.target}
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--spark-master", self.cluster.url, "--spark-log", str(folder / "spark.log")],
                env=environment,
                cwd=folder,
                stdout=output,
                stderr=output,
            )
        try:
            yield process, log
        finally:
            process.terminate()
            process.wait(60)


def measure_pipeline(bench: Bench) -> Iterator[Figure]:
    """Rows a second of a pipeline of CSV files into a table without a key."""
    yield _compare(bench, "pipeline of CSV files, append table", lambda *run: _take(bench, {}, (), *run))


def measure_changelog(bench: Bench) -> Iterator[Figure]:
    """Rows a second of the same into a keyed table; half of the keys exist, and their old rows are looked up."""
    options = {"bucket": "4", "changelog-producer": "lookup"}
    yield _compare(bench, "pipeline of CSV files, lookup changelog", lambda *run: _take(bench, options, ("k",), *run))


def measure_compaction(bench: Bench) -> Iterator[Figure]:
    """MB a second of full compactions of 84 MB, from the end of the job before."""
    yield _compare(bench, "compaction of a large bucket", lambda *run: _compact(bench, *run), unit="MB/s")


def _compare(bench: Bench, name: str, work: Callable[[Lab, str, int], float], unit: str = "rows/s") -> Figure:
    rates: dict[int, list[float]] = {1: [], 2: []}
    folder = bench.folder
    with running_s3(_made(folder / "s3")) as s3, _variables(s3_variables(s3)):
        wheel = build_wheel(_made(folder / "wheel"))
        with (
            EmbeddedStack(folder / "stack", warehouse="s3://lake/bench") as stack,
            StandaloneCluster(_made(folder / "cluster"), wheel, s3) as cluster,
            lakelog.connect(stack.target) as catalog,
        ):
            catalog.create_database("b")
            lab = Lab(folder, catalog, stack.target, s3, cluster)
            for turn in range(1 if bench.quick else min(bench.pairs, MOST_PAIRS)):
                for workers, found in rates.items():
                    found.append(work(lab, f"r{turn}_{workers}", workers))
                    bench.console.print(f"{workers} worker{'s' * (workers > 1)}: {found[-1]:.4g} {unit}")
    ratios = [two / one for one, two in zip(rates[1], rates[2], strict=True)]
    one, two = (statistics.median(found) for found in rates.values())
    return Figure(name, unit, two, one, statistics.median(ratios), min(ratios), max(ratios), len(ratios))


def _take(bench: Bench, options: Mapping[str, str], key: tuple[str, ...], lab: Lab, run: str, workers: int) -> float:
    """Rows a second of the batches of a pipeline but the first; the median."""
    table = lab.catalog.create_table(f"b.{run}", _SCHEMA, primary_key=key, options=dict(options))
    rows = bench.scaled(BATCH_ROWS) // FILES_A_BATCH
    folder = _made(lab.folder / run / "in")
    for number in range(BATCHES * FILES_A_BATCH):
        # Half of the keys of a batch are those of the batch before.
        first = number * rows - (number // FILES_A_BATCH) * FILES_A_BATCH * rows // 2
        keys = np.arange(first, first + rows)
        values = pa.array(np.char.add(f"value {number} ", keys.astype("U12")))
        pc.write_csv(pa.table({"k": keys, "v": values, "w": keys * 0.25}), folder / f"{number:03d}.csv")
    file = folder.parent / "p.yaml"
    file.write_text(
        f"name: {run}\ntable: b.{run}\nmode: {'upsert' if key else 'append'}\n"
        f"source: {{type: files, path: ./in, format: csv, max_files_per_batch: {FILES_A_BATCH}}}\n"
        "trigger: {available_now: true}\ncheckpoint: ./state\n"
    )
    with lab.service(run, workers, "writer", "run", str(file)) as (process, log):
        code = process.wait(_WITHIN_S)
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    done = [each for each in events if each["event"] == "batch committed"]
    count = BATCHES * FILES_A_BATCH * rows
    expected = count - (BATCHES - 1) * FILES_A_BATCH * rows // 2 if key else count
    if code != 0 or table.scan().count() != expected:
        raise WrongAnswerError(f"exit code {code}, {table.scan().count()} rows instead of {expected}")
    return FILES_A_BATCH * rows / statistics.median(each["seconds"] for each in done[1:])


def _compact(bench: Bench, lab: Lab, run: str, workers: int) -> float:
    """MB a second of the jobs but the first; the median."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.binary())])
    random = np.random.default_rng(1)
    rows = 1024
    value_bytes = JOB_BYTES // JOB_FILES // rows
    jobs = max(2, JOBS // 2) if bench.quick else JOBS
    tables = []
    for number in range(jobs):
        table = lab.catalog.create_table(f"b.{run}_{number}", schema, options={"target-file-size": "16 mb"})
        for _ in range(JOB_FILES):
            values = [random.bytes(value_bytes) for _ in range(rows)]
            table.append(pa.table({"k": range(rows), "v": values}, schema=schema))
        lab.catalog.metastore.request_jobs(table.uuid, COMPACT, [to_bucket_scope(b"", 0)], {STRATEGY: FULL})
        tables.append(table)
    ends: dict[str, float] = {}
    names = ",".join(table.name for table in tables)
    with lab.service(run, workers, "compactor", "run", "--tables", names) as (process, log):
        give_up_s = time.monotonic() + _WITHIN_S
        while len(ends) < jobs:
            if process.poll() is not None or time.monotonic() > give_up_s:
                raise WrongAnswerError(log.read_text()[-2000:])
            for table in tables:
                states = [job.state for job in lab.catalog.metastore.list_jobs([table.uuid]) if job.kind == COMPACT]
                if states == [JobState.DONE]:
                    ends.setdefault(table.name, time.monotonic())
            time.sleep(0.01)
    if any(lab.catalog.table(table.name).scan(["k"]).count() != JOB_FILES * rows for table in tables):
        raise WrongAnswerError("rows are missing after a compaction")
    if any(lab.catalog.table(table.name).files().num_rows >= JOB_FILES for table in tables):
        raise WrongAnswerError("a job has merged nothing")
    times = sorted(ends.values())
    return JOB_BYTES / 1e6 / statistics.median(end - start for start, end in itertools.pairwise(times))


@contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables of this process meanwhile, as the client and the metastore need them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
