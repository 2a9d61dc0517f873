"""Ways to put overlapping runs into one, step by step: nanoseconds an input row, one thread (run it: `python -m`).

Q1 rows; a step has a row group of the large run and a tenth as many rows of each of ten others. `concat, take` is what
`lakelog.storage.rewrite.runs` does; copying the chunks together before costs a fifth more, leaving superseded rows out
of each run before it twice as much, and numpy for the columns that it can take saves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.shapes import q1

_GROUP_ROWS = 32_768
_RUNS = 10
_STEPS = 8

Runs = Sequence[pa.Table]


def find_winners(runs: Runs) -> npt.NDArray[np.int64]:
    """The last row of each key, by key."""
    keys = np.concatenate([run.column("id").to_numpy() for run in runs])
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    winners: npt.NDArray[np.int64] = order[np.append(in_order[1:] != in_order[:-1], True)]
    return winners


def concat_take(runs: Runs) -> object:
    """Takes from the chunks."""
    return pa.concat_tables(runs).take(pa.array(find_winners(runs)))


def combine_take(runs: Runs) -> object:
    """Takes from copies without chunks."""
    return pa.concat_tables(runs).combine_chunks().take(pa.array(find_winners(runs)))


def mask_take(runs: Runs) -> object:
    """Leaves superseded rows out, then takes."""
    winners = find_winners(runs)
    mask = np.zeros(sum(run.num_rows for run in runs), bool)
    mask[winners] = True
    ends = np.cumsum([run.num_rows for run in runs])
    parts = [run.filter(pa.array(own)) for run, own in zip(runs, np.split(mask, ends[:-1]), strict=True)]
    return pa.concat_tables(parts).combine_chunks().take(pa.array((np.cumsum(mask) - 1)[winners]))


def numpy_take(runs: Runs) -> object:
    """Integers by numpy, others from the chunks."""
    winners = find_winners(runs)
    taken = pa.array(winners)
    return [
        pa.array(np.concatenate([chunk.to_numpy() for chunk in column.chunks])[winners])
        if pa.types.is_integer(column.type)
        else column.take(taken)
        for column in pa.concat_tables(runs).columns
    ]


WAYS: dict[str, Callable[[Runs], object]] = {
    "winners alone": find_winners,
    "concat, take": concat_take,
    "concat, combine, take": combine_take,
    "mask, concat, take": mask_take,
    "concat, numpy": numpy_take,
}


def main() -> None:
    pa.set_cpu_count(1)
    random = np.random.default_rng(1)
    steps = []
    for step in range(_STEPS):
        ids = np.arange(_GROUP_ROWS) * 2 + step * 10**6
        updates = [np.sort(random.choice(ids, _GROUP_ROWS // 10, replace=False)) for _ in range(_RUNS)]
        steps.append([q1(each, seed) for seed, each in enumerate([ids, *updates])])
    rows = sum(run.num_rows for runs in steps for run in runs)
    for turn in range(2):
        for name, way in WAYS.items():
            begin = time.process_time()
            for runs in steps:
                way(runs)
            if turn:
                print(f"{name:24}{(time.process_time() - begin) / rows * 1e9:6.0f} ns of CPU a row")


if __name__ == "__main__":
    main()
