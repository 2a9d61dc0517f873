"""Whether commits become slower by those before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bench.measure import Figure, absolute

_WINDOW = 40
_LAST = 200


def commit_growth(name: str, commits_s: Sequence[float]) -> Iterator[Figure]:
    """The 99th percentile of commits 161 to 200 by that of commits 41 to 80, where there are so many.

    The first 40 are left out, in which programs warm up and which would make the others look fast.

    Args:
        name: What was committed.
        commits_s: How long each commit took, in their order.
    """
    if len(commits_s) < _LAST:
        return
    early = float(np.percentile(commits_s[_WINDOW : 2 * _WINDOW], 99))
    late = float(np.percentile(commits_s[_LAST - _WINDOW : _LAST], 99))
    yield absolute(f"{name}: p99 of commits 161-200 / 41-80", "x", [late / early], target=1.15)
