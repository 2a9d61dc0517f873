"""FUZZ: requests of valid form and extreme content to every method of metastore and reader, for ten minutes.

`--quick`: one minute. `--runs` rounds instead, `--seed` of the first one; a round that fails prints its seed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.requests.lab import RequestLab, RequestLabError, RequestReport
from lakelog.testing import embedded_stack

TITLE = "extreme requests to every method: each gets an explained answer, and honest clients notice nothing"
_CALLS = 2_500
_SECONDS = 600
_SEED = 1


def run(bench: Bench) -> Iterator[Figure]:
    """Counts of requests and outcomes; each round checks the rules."""
    first = _SEED if bench.seed is None else bench.seed
    report = RequestReport()
    began_s = time.monotonic()
    with embedded_stack(bench.folder, services=("metastore", "reader")) as stack:
        lab = RequestLab(stack.target, stack.reader_target, list(stack.logs.values()))
        try:
            for seed in itertools.count(first):
                if report.rounds >= bench.runs if bench.runs else time.monotonic() - began_s > bench.scaled(_SECONDS):
                    break
                lab.run_round(seed, _CALLS, report)
                bench.console.print(f"  seed {seed}: {report.calls} requests, {report.tables} tables used after them")
        except RequestLabError as error:
            raise WrongAnswerError(str(error)) from error
        finally:
            lab.close()
    for name in ("rounds", "calls", "tables"):
        yield absolute(name, "", [float(getattr(report, name))])
    for outcome, count in report.outcomes.most_common():
        yield absolute(outcome, "", [float(count)])
