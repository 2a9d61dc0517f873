"""Cost per row of finding superseded rows: ours and the ways that were rejected.

Run `python -m bench.kernels.merge`; a base of `ROWS` keys and k runs of a tenth of it that overwrite keys of the base.
Every way must find the same rows. Prints nanoseconds per row of all runs together, the best of three.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.keys.ordering import comparable_keys
from lakelog.format.merge.runs import MergeRun, find_deleted_rows, merge_batch

ROWS = 1_000_000
RUNS = (1, 5, 20)


def int_key(numbers: np.ndarray) -> pa.Table:
    return pa.table({"k": numbers})


def text_key(numbers: np.ndarray) -> pa.Table:
    return pa.table({"k": pc.binary_join_element_wise("order-", digits(numbers, 12), "")})


def digits(numbers: np.ndarray, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def varying_text_key(numbers: np.ndarray) -> pa.Table:
    texts = pc.binary_join_element_wise(
        "user/", digits(numbers // 97, 6), pc.binary_repeat("x", pa.array(numbers % 11)), "/"
    )
    return sort(pa.table({"k": pc.binary_join_element_wise(texts, pa.array(numbers).cast(pa.string()), "")}))


def uuid_key(numbers: np.ndarray) -> pa.Table:
    return sort(
        pa.table({"k": [f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}" for number in numbers.tolist()]})
    )


def long_key(numbers: np.ndarray) -> pa.Table:
    return sort(
        pa.table(
            {
                "k": pc.binary_join_element_wise(
                    uuid_key(numbers)["k"], uuid_key(numbers)["k"], pc.binary_repeat("y", pa.array(numbers % 9)), "/"
                )
            }
        )
    )


def int_int_key(numbers: np.ndarray) -> pa.Table:
    return pa.table({"k": (numbers // 1000).astype(np.int32), "l": numbers * 7919 % 2**40}).sort_by(
        [("k", "ascending"), ("l", "ascending")]
    )


def wide_int_int_key(numbers: np.ndarray) -> pa.Table:
    return pa.table({"k": numbers * (2**33 + 1), "l": -numbers * (2**33 + 1)})


def text_int_key(numbers: np.ndarray) -> pa.Table:
    return pa.table({"k": digits(numbers // 1000, 8), "l": numbers})


def sort(table: pa.Table) -> pa.Table:
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names]))


KEYS: dict[str, Callable[[np.ndarray], pa.Table]] = {
    "int64": int_key,
    "string 18": text_key,
    "string 13-30": varying_text_key,
    "string 32 random": uuid_key,
    "string 65-73": long_key,
    "(int32, int64) narrow": int_int_key,
    "(int64, int64) wide": wide_int_int_key,
    "(string 8, int64)": text_int_key,
}


def ours(tables: Sequence[pa.Table]) -> np.ndarray:
    found = find_deleted_rows([MergeRun(table) for table in tables], tables[0].column_names)
    starts = np.cumsum([0] + [len(table) for table in tables])
    return np.concatenate([start + part for start, part in zip(starts[:-1], found, strict=True)])


def by_dictionary(tables: Sequence[pa.Table]) -> np.ndarray:
    """Codes of the hashed keys; the last assignment to a code wins."""
    whole = pa.concat_tables(tables).combine_chunks()
    codes = np.zeros(len(whole), np.int64)
    for name in whole.column_names:
        part = pc.dictionary_encode(whole[name].chunk(0))
        codes = codes * len(part.dictionary) + part.indices.to_numpy()
    if len(whole.column_names) > 1:
        codes = pc.dictionary_encode(pa.array(codes)).indices.to_numpy()
    places = np.arange(len(codes))
    last = np.empty(int(codes.max()) + 1, np.int64)
    last[codes] = places
    return np.flatnonzero(last[codes] != places)


def by_group_by(tables: Sequence[pa.Table]) -> np.ndarray:
    whole = pa.concat_tables(tables)
    names = whole.column_names
    whole = whole.append_column("position", pa.array(np.arange(len(whole))))
    mask = np.ones(len(whole), bool)
    mask[whole.group_by(names, use_threads=False).aggregate([("position", "max")])["position_max"].to_numpy()] = False
    return np.flatnonzero(mask)


def by_sort_indices(tables: Sequence[pa.Table]) -> np.ndarray:
    whole = pa.concat_tables(tables).combine_chunks()
    order = pc.sort_indices(whole, sort_keys=[(name, "ascending") for name in whole.column_names])
    same = np.ones(len(whole) - 1, bool)
    for column in whole.columns:
        in_order = column.chunk(0).take(order)
        same &= pc.equal(in_order[1:], in_order[:-1]).to_numpy(zero_copy_only=False)
    mask = np.zeros(len(whole), bool)
    mask[order.to_numpy()[:-1]] = same
    return np.flatnonzero(mask)


WAYS = {"ours": ours, "dictionary": by_dictionary, "group_by": by_group_by, "sort_indices": by_sort_indices}


def cost_ns(call: Callable[[], object], rows: int) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1e9 / rows


def sort_keys(table: pa.Table, names: list[str]) -> np.ndarray:
    return np.argsort(comparable_keys([table.column(name) for name in names]), kind="stable")


def main() -> None:
    random = np.random.default_rng(0)
    print(f"{'key':24}{'k':>4}" + "".join(f"{name:>14}" for name in WAYS) + f"{'seq, in order':>16}{'seq, late':>12}")
    for key, make in KEYS.items():
        base = np.sort(random.choice(8 * ROWS, ROWS, replace=False))
        made = [make(base)] + [make(np.sort(random.choice(base, ROWS // 10, replace=False))) for _ in range(max(RUNS))]
        for k in RUNS:
            tables = made[: k + 1]
            rows = sum(map(len, tables))
            expected = ours(tables)
            figures = []
            for way in WAYS.values():
                assert np.array_equal(expected, way(tables))
                figures.append(cost_ns(partial(way, tables), rows))
            for late in (False, True):
                numbers = [
                    random.integers(0, 9, len(t)) + (-i if late and i % 3 == 2 else i) * 10
                    for i, t in enumerate(tables)
                ]
                runs = [MergeRun(t.append_column("s", pa.array(n))) for t, n in zip(tables, numbers, strict=True)]
                figures.append(cost_ns(partial(find_deleted_rows, runs, made[0].column_names, ["s"]), rows))
            print(
                f"{key:24}{k:>4}"
                + "".join(f"{figure:>14.1f}" for figure in figures[:-2])
                + f"{figures[-2]:>16.1f}{figures[-1]:>12.1f}"
            )
        names = made[0].column_names
        shuffled = made[0].take(random.permutation(ROWS))
        by = [(name, "ascending") for name in names]
        sorting = {
            "argsort sorted": lambda made=made, names=names: sort_keys(made[0], names),
            "shuffled": lambda table=shuffled, names=names: sort_keys(table, names),
            "pc.sort_indices": lambda table=shuffled, by=by: pc.sort_indices(table, sort_keys=by),
            "merge_batch": lambda table=shuffled, names=names: merge_batch(table, names),
        }
        print(" " * 24 + ", ".join(f"{name} {cost_ns(call, ROWS):.1f}" for name, call in sorting.items()))


if __name__ == "__main__":
    main()
