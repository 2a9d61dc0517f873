"""SERIALIZABLE of BENCH: random transactions under faults, and whether some order of theirs explains what they saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.serializability import run_history

TITLE = "histories of transactions under faults, each serializable"
_HISTORIES = 30
_SECONDS = 60.0
_SEED = 1


def run(bench: Bench) -> Iterator[Figure]:
    """All histories; the first one with an anomaly ends the run with its seed."""
    outcomes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    first = _SEED if bench.seed is None else bench.seed
    count = bench.runs or bench.scaled(_HISTORIES)
    for seed in range(first, first + count):
        report = run_history(bench.folder / f"s{seed}", 15.0 if bench.quick else _SECONDS, seed)
        if report.findings:
            raise WrongAnswerError(f"Seed {seed}: {'; '.join(map(str, report.findings[:10]))}")
        outcomes += report.outcomes
        faults += report.faults
        bench.console.print(
            f"  seed {seed}: {sum(report.outcomes.values())} transactions, {sum(report.faults.values())} faults"
        )
    yield absolute("histories", "", [float(count)])
    for name, number in sorted(outcomes.items()):
        yield absolute(f"transactions {name}", "", [float(number)])
    for name, number in sorted(faults.items()):
        yield absolute(name, "faults", [float(number)])
