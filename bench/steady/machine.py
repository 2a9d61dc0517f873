"""Runs the stack and its clients, samples both, and says what grew.

Postgres, Kafka, the metastore, a compactor, a publisher and the reader service do the same work all the time: upserts
of 10,000 keys with changelog and log, appends to a queue, a subscriber, a Kafka consumer, and programs that come and
go. Snapshots expire after a minute. So after the first quarter nothing may grow: the median of the last quarter is
compared with that of the second.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import psycopg

import lakelog
from bench.context import Bench
from bench.expected import check_equal
from bench.idle import SERVICES, find_processes
from bench.measure import Figure
from bench.steady.clients import KEYED, QUEUE, SCHEMA, Appends, Client, Follower, PlainConsumer, Upserts, Visitors
from bench.steady.plot import plot_samples
from bench.steady.samples import sample
from lakelog.testing import EmbeddedStack, embedded_stack

SECONDS: Final = 3600
GROWTH: Final = 1.1
_SAMPLE_EVERY_S: Final = 10.0
_OPTIONS: Final = {"snapshot.time-retained": "1 min", "snapshot.num-retained.min": "1"}
_KEYED: Final = {"bucket": "2", "changelog-producer": "lookup", "log.system": "kafka"}
_JUDGED: Final = ("memory of", "threads of", "open files of", "connections", "tables of", "files in", "ms ")

Samples = dict[str, list[float]]


def measure(bench: Bench) -> Iterator[Figure]:
    """The growth of everything that was sampled."""
    with embedded_stack(bench.folder / "stack", services=SERVICES, kafka=True) as stack:
        with lakelog.connect(stack.target) as catalog:
            catalog.create_database("s")
            catalog.create_table(KEYED, SCHEMA, primary_key=["id"], options=_OPTIONS | _KEYED)
            catalog.create_table(QUEUE, SCHEMA, options=_OPTIONS)
        samples = _run_clients(stack, bench)
    if bench.plots is not None:
        plot_samples(samples, _SAMPLE_EVERY_S, bench.plots / "steady.svg")
    for name, values in samples.items():
        if name.startswith(_JUDGED):
            yield _to_figure(name, values)


def _run_clients(stack: EmbeddedStack, bench: Bench) -> Samples:
    upserts, appends = Upserts(stack, 0.5), Appends(stack, 0.25)
    follower, consumer, visitors = Follower(stack), PlainConsumer(stack), Visitors(stack, 5.0)
    timed = {"ms an upsert": upserts, "ms an append": appends, "ms to the subscriber": follower, "ms a visit": visitors}
    samples = _sample(stack, bench, timed, [*timed.values(), consumer])
    for client in (upserts, appends, visitors, follower, consumer):
        client.stop()
    with lakelog.connect(stack.target) as catalog:
        rows = catalog.table(KEYED).scan().to_arrow()
        stored = dict(zip(rows["id"].to_pylist(), rows["number"].to_pylist(), strict=True))
        check_equal("rows of the keyed table", stored == upserts.latest, True)
        check_equal("rows that the subscriber knows", follower.known == upserts.latest, True)
        check_equal("records of the log", consumer.records, upserts.rows)
        check_equal("rows of the queue", catalog.table(QUEUE).scan().count(), appends.rows)
    return samples


def _sample(stack: EmbeddedStack, bench: Bench, timed: Mapping[str, Client], clients: Sequence[Client]) -> Samples:
    samples: Samples = defaultdict(list)
    services = find_processes(stack.folder)
    url = urlsplit(stack.database_url)._replace(scheme="postgresql").geturl()
    begun_s = time.monotonic()
    with psycopg.connect(url, autocommit=True) as database:
        while (passed_s := time.monotonic() - begun_s) < bench.scaled(SECONDS):
            time.sleep(_SAMPLE_EVERY_S - passed_s % _SAMPLE_EVERY_S)
            for client in clients:
                client.check()
            for name, value in sample(services, database, stack.folder / "warehouse").items():
                samples[name].append(value)
            for name, client in timed.items():
                times = client.drain_times() or [float("nan")]
                samples[f"{name}, median"].append(float(np.percentile(times, 50)))
                samples[f"{name}, p99"].append(float(np.percentile(times, 99)))
            if len(samples["files in the warehouse"]) % 30 == 0:
                bench.console.print(f"  {passed_s:.0f} s", highlight=False)
    return samples


def _to_figure(name: str, values: Sequence[float]) -> Figure:
    """The median of the last quarter beside that of the second."""
    quarter = len(values) // 4
    before = [value for value in values[quarter : 2 * quarter] if value == value]
    after = [value for value in values[-quarter:] if value == value]
    growth = statistics.median(after) / max(1e-9, statistics.median(before))
    return Figure(
        name,
        "MiB" if name.startswith(("memory", "tables")) else "",
        statistics.median(after),
        statistics.median(before),
        growth,
        min(after),
        max(after),
        len(values),
        target=GROWTH,
        met=growth <= GROWTH,
        aim=f"<= {GROWTH} x",
    )
