"""SOAK: ten minutes of writers with faults and readers that die and come back; each must know its table in the end."""

from __future__ import annotations

from collections.abc import Iterator

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.soak.machine import soak
from bench.soak.readers import SoakError

TITLE = "writers with faults, readers of every mode that die and come back, against each other"
_SECONDS = 600
_SEED = 7


def run(bench: Bench) -> Iterator[Figure]:
    """How much was done; the answer is checked by every reader."""
    try:
        report = soak(bench.folder, bench.scaled(_SECONDS), _SEED, lambda line: bench.console.print(f"  {line}"))
    except SoakError as error:
        raise WrongAnswerError(str(error)) from error
    for name, value in vars(report).items():
        yield absolute(name.replace("_", " "), "", [float(value)])
