"""Files of append tables of which commits have removed many rows by position: they are rewritten without these. Pure.

Objectives, which conflict: reads skip removed rows, but still decode them; a deletion of few rows must not write large
files again. So a file is due once a fifth of its rows is gone, as in Paimon; a compaction for another reason drops all
removed rows of its files, and a full one takes every file that has any.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.format.commit.facts import OrderKey
from lakelog.format.compaction.plan import AppendPlan

REMOVED_PERCENT: Final = 20
"""The part of a file's rows that is gone when the file is due: Paimon's `compaction.delete-ratio-threshold`."""


def plan_removed_rows(files: pa.Table, taken: Collection[int], *, full: bool, ordered: bool) -> tuple[AppendPlan, ...]:
    """Plans the rewriting of files of append tables that have too many removed rows. Pure and vectorised.

    Args:
        files: Columns of `lakelog.format.tables.files.FILE_SCHEMA`, live files of one bucket or of some partitions.
        taken: Ids of files that other plans rewrite.
        full: Every file with removed rows.
        ordered: Rows have an order: files of one place in it are rewritten together, from the first such file on.

    Returns:
        Plans of one file, or of files of one place; each can be done without the others.
    """
    names = [("order_snapshot", "ascending"), ("order_ordinal", "ascending"), ("file_id", "ascending")]
    files = files.sort_by([("partition", "ascending"), ("bucket", "ascending"), *names])
    removed, rows = files["delete_count"].to_numpy(), files["row_count"].to_numpy()
    ids = files["file_id"].to_numpy()
    wanted = removed > 0 if full else removed * 100 >= np.maximum(rows, 1) * REMOVED_PERCENT
    wanted &= ~np.isin(ids, np.array([*taken], np.int64))
    plans: list[AppendPlan] = []
    others = frozenset(taken)
    end = 0
    for start in np.flatnonzero(wanted).tolist():
        if start < end:
            continue
        end = _find_end(files, start) if ordered else start + 1
        if others.isdisjoint(ids[start:end].tolist()):
            plans.append(_to_plan(files.slice(start, end - start), int(removed[start:end].sum())))
    return tuple(plans)


def _find_end(files: pa.Table, start: int) -> int:
    """The end of the files that share a file's place: the output would come after those that are left out."""
    end = start + 1
    names = ("partition", "bucket", "order_snapshot", "order_ordinal")
    while end < files.num_rows and all(files[name][end] == files[name][start] for name in names):
        end += 1
    return end


def _to_plan(files: pa.Table, removed: int) -> AppendPlan:
    place = OrderKey(*(files[name][-1].as_py() for name in ("order_snapshot", "order_ordinal", "order_time_ms")))
    return AppendPlan(
        files["partition"][0].as_py(),
        files["bucket"][0].as_py(),
        tuple(files["file_id"].to_pylist()),
        sum(files["size_bytes"].to_pylist()),
        place,
        f"{removed} rows were removed from {files.num_rows} file{'' if files.num_rows == 1 else 's'}.",
    )
