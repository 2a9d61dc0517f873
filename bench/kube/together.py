"""W15 on a cluster: upserts beside a compactor, and small writes with their subscriber, together and alone."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from multiprocessing.queues import Queue
from typing import Final

import numpy as np

import lakelog
from bench.context import Bench
from bench.freshness import WARM_UPS, measure_freshness
from bench.kube.recovery import open_cluster, run_in_shell
from bench.measure import Figure, absolute
from bench.shapes import q1, q1_schema
from bench.together import BASE_ROWS, upsert_for
from dev.kube.lab import Cluster

ALONE_S: Final = 10
TOGETHER_S: Final = 30


def measure_together(bench: Bench) -> Iterator[Figure]:
    """Rows a second of upserts, and how late small writes arrive, alone and together."""
    with open_cluster(bench) as cluster:
        yield from measure_on(cluster, bench.scaled(ALONE_S), bench.scaled(TOGETHER_S))


def measure_on(cluster: Cluster, alone_s: int, together_s: int) -> Iterator[Figure]:
    """The same on a cluster that is there."""
    command = ["python", "-m", "bench.kube.together", str(alone_s), str(together_s)]
    found = json.loads(run_in_shell(cluster, command))
    for name, (rate, latencies_ms) in found.items():
        yield absolute(f"upserts {name}", "rows/s", [rate])
        for part in (50, 99):
            yield absolute(f"small writes {name}, p{part}", "ms", [float(np.percentile(latencies_ms, part))])


def main() -> int:
    """Measures in a pod, and prints the result as JSON. The compactor of the cluster runs all the time."""
    alone_s, together_s = int(sys.argv[1]), int(sys.argv[2])
    target = os.environ["LAKELOG_TARGET"]
    with lakelog.connect() as catalog:
        catalog.create_database("b", if_not_exists=True)
        for name, write_only in (("alone", "true"), ("together", "false")):
            options = {"bucket": "2", "write-only": write_only}
            catalog.create_table(f"b.{name}", q1_schema(), primary_key=["id"], options=options)
            catalog.table(f"b.{name}").upsert(q1(np.arange(BASE_ROWS // 4), 1))
    rate_alone = _Upserts(target, "alone", alone_s).rate()
    latencies_alone = measure_freshness(target, "b.fresh_alone", [], 10 * alone_s + WARM_UPS)[WARM_UPS:]
    upserts = _Upserts(target, "together", together_s)
    latencies = measure_freshness(target, "b.fresh", [], 9 * together_s + WARM_UPS)[WARM_UPS:]
    result = {"alone": (rate_alone, latencies_alone), "together": (upserts.rate(), latencies)}
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


class _Upserts:
    """A process that upserts as fast as it can."""

    def __init__(self, target: str, name: str, seconds: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._answers: Queue[float] = context.Queue()
        self._process = context.Process(target=upsert_for, args=(target, name, BASE_ROWS // 4, seconds, self._answers))
        self._process.start()
        self._seconds = seconds
        # The first commit is there.
        self._answers.get(timeout=60)

    def rate(self) -> float:
        """Rows a second, when it has ended."""
        found = self._answers.get(timeout=self._seconds + 60)
        self._process.join()
        return found


if __name__ == "__main__":
    sys.exit(main())
