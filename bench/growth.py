"""Whether commits become slower by those before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench.measure import Figure, absolute

_WINDOW = 40
_LAST = 200


def commit_growth(name: str, commits_s: Sequence[float]) -> Iterator[Figure]:
    """The 99th percentile of the 40 commits up to the 200th by that of the first 40, where there are so many.

    Args:
        name: What was committed.
        commits_s: How long each commit took, in their order.
    """
    if len(commits_s) < _LAST:
        return
    early = float(np.percentile(commits_s[:_WINDOW], 99))
    late = float(np.percentile(commits_s[_LAST - _WINDOW : _LAST], 99))
    yield absolute(f"{name}: p99 around commit 180 / around commit 20", "x", [late / early], target=1.15)
