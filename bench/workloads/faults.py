"""FAULTS: publishers, writers, metastore and broker killed, frozen and cut off; consumers must see each row once.

`--runs` (200) histories of tables, four at once; `--seed` of the first round. A round that fails prints its seed.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.context import Bench
from bench.faults.lab import FaultLab, FaultLabError, FaultReport
from bench.measure import Figure, WrongAnswerError, absolute

TITLE = "the log under faults: kills, freezes, cuts, and ends of transactions that come late"
TABLES = 4
_RUNS = 200
_SEED = 1
_LARGE = 0.005


def run(bench: Bench) -> Iterator[Figure]:
    """How much was done and what went wrong; the answer is checked in each round."""
    runs = bench.runs or bench.scaled(_RUNS)
    first = _SEED if bench.seed is None else bench.seed
    report = FaultReport()
    lab = FaultLab(bench.folder)
    with lab.running():
        for seed in range(first, first + -(-runs // TABLES)):
            try:
                lab.run_round(seed, TABLES, report, large=_LARGE)
            except FaultLabError as error:
                raise WrongAnswerError(str(error)) from error
            bench.console.print(f"  {report.runs} runs, {report.snapshots} snapshots, {report.records} records")
    for name in ("runs", "snapshots", "records"):
        yield absolute(name, "", [float(getattr(report, name))])
    for fault, count in report.faults.items():
        yield absolute(fault.value, "", [float(count)])
    for code, count in report.late_ends.items():
        yield absolute("late ends that took effect" if code == 0 else f"late ends refused ({code})", "", [float(count)])
