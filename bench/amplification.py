"""How often a byte is written, and what a read meets, over 1,000 commits that nobody compacts by hand.

The metastore runs in this process over its store in memory; behind each commit it plans what is due, and the
compactor's own duty does it at once, as one that keeps up would. What is told depends on sizes, not on the machine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

from bench.context import Bench
from bench.expected import check_equal
from bench.measure import Figure, absolute
from bench.shapes import narrow, uniform_ids, zipf_ids
from compactor.compactions.compactions import CompactionJobExecutor
from compactor.executor import Control
from compactor.metrics import Metrics
from lakelog.clock import SystemClock
from lakelog.format.jobs.job import COMPACT
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.serving.logging_setup import set_up_logging
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases

COMMITS: Final = 1_000
ROWS: Final = 1_000
KEYS: Final = 500_000


@dataclass
class History:
    """What was measured behind each commit."""

    write: list[float] = field(default_factory=list)
    """Bytes written by commits and compactions, by those of commits."""
    runs: list[int] = field(default_factory=list)
    """Sorted runs of the bucket that has most; files of an append table."""
    rows: list[float] = field(default_factory=list)
    """Stored rows by rows that a read shows."""

    def note(self, table: Table, shown: int) -> None:
        """Writes down what a read meets."""
        files = table.files()
        levels = files.column("level").to_numpy()
        # What a commit writes is a run by itself, and files without a key are all there are.
        alone = levels == 0
        self.runs.append(int(alone.sum()) + len(np.unique(levels[~alone])))
        self.rows.append(int(files.column("rows").to_numpy().sum()) / shown)


def measure_amplification(bench: Bench) -> Iterator[Figure]:
    """Keyed tables with uniform and with Zipf keys, and an append table."""
    commits = bench.scaled(COMMITS)
    histories: dict[str, History] = {}
    for name, key in (("uniform keys", ["id"]), ("Zipf keys", ["id"]), ("append", [])):
        random = np.random.default_rng(7)
        folder = bench.folder / name.replace(" ", "-")
        with _Compacted(folder) as compacted:
            table = compacted.catalog.create_table("b.t", narrow(np.arange(1), 1).schema, primary_key=key)
            history = histories[name] = History()
            known = np.zeros(KEYS, np.bool_)
            by_commits, by_compactions = 0, 0
            for number in range(commits):
                ids = _pick(random, name, number)
                table.append(narrow(ids, number))
                known[ids] = True
                by_commits += compacted.written_bytes()
                compacted.work()
                by_compactions += compacted.written_bytes()
                history.write.append(1 + by_compactions / by_commits)
                history.note(table, int(known.sum()) if key else ROWS * (number + 1))
            check_equal(name, table.scan().count(), int(known.sum()) if key else ROWS * commits)
        yield absolute(f"{name}: bytes written a byte of the commits", "x", [history.write[-1]])
        yield absolute(f"{name}: most runs of a bucket (append: files)", "", [float(max(history.runs))])
        yield absolute(f"{name}: stored rows a row that is shown, on average", "x", [float(np.mean(history.rows))])
    if bench.plots is not None:
        _plot(histories, bench.plots / "amplification.svg")


def _pick(random: np.random.Generator, name: str, number: int) -> npt.NDArray[np.int64]:
    if name == "append":
        return np.arange(ROWS * number, ROWS * (number + 1)) % KEYS
    return zipf_ids(random, ROWS, KEYS) if name.startswith("Zipf") else uniform_ids(random, ROWS, KEYS)


class _Compacted:
    """A metastore and a compactor in this process, which works when it is told to."""

    def __init__(self, folder: Path) -> None:
        async def open_memory() -> Store:
            return MemoryStore(SystemClock())

        self._metastore = in_process(open_memory, lambda store: UseCases(store, f"file://{folder}/"))
        self._metastore.stop_background()
        self._executor = CompactionJobExecutor(
            self._metastore, LocationStores(), SystemClock(), Metrics(), set_up_logging("warning")
        )
        self._control = Control(threading.Event())
        self._folder = folder
        self._seen: set[str] = set()
        self.catalog = Catalog(self._metastore, LocationStores())

    def __enter__(self) -> _Compacted:
        self.catalog.create_database("b")
        return self

    def __exit__(self, *_: object) -> None:
        self.catalog.close()

    def work(self) -> None:
        """Does all that is due, and what that makes due."""
        while True:
            self._metastore.run(self._metastore.use_cases.due_work.step())
            job = self._metastore.lease_job([COMPACT], [], "bench", duration_ms=60_000)
            if job is None:
                return
            self._metastore.finish_job(job.job_id, job.epoch, self._executor.do(job, self._control))

    def written_bytes(self) -> int:
        """Of all files that are new since it was asked last."""
        new = [path for path in self._folder.glob("*/data/*") if path.name not in self._seen]
        self._seen.update(path.name for path in new)
        return sum(file.stat().st_size for path in new for file in path.iterdir())


def _plot(histories: dict[str, History], path: Path) -> None:
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    titles = ("bytes written a byte of the commits", "sorted runs (append: files)", "stored rows a row shown")
    figure, axes = plt.subplots(3, 1, sharex=True, figsize=(9, 8), layout="constrained")
    for name, history in histories.items():
        for axis, values in zip(axes, (history.write, history.runs, history.rows), strict=True):
            axis.plot(values, label=name, linewidth=1)
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
    axes[0].legend()
    axes[-1].set_xlabel("commits")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
