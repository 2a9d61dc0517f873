"""What a workload is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console


@dataclass(frozen=True)
class Bench:
    """What a workload is given.

    Args:
        quick: A tenth of the data, in at most a minute.
        folder: For its files; removed afterwards.
        console: For progress.
        pairs: How many pairs each comparison counts.
        plots: Where pictures go; None: nowhere.
        runs: How many runs a workload of random runs makes; None: as many as it is meant to.
        seed: Of the first of them; None: the workload's own.
    """

    quick: bool
    folder: Path
    console: Console
    pairs: int
    plots: Path | None = None
    runs: int | None = None
    seed: int | None = None

    def scaled(self, count: int) -> int:
        """`count`, or a tenth of it in a quick run."""
        return max(1, count // 10) if self.quick else count
