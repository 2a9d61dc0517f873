"""What a workload is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        data: Where workloads that build data first keep it for the next run; None: nowhere.
        sizes: Sizes that were given, by name.
    """

    quick: bool
    folder: Path
    console: Console
    pairs: int
    plots: Path | None = None
    runs: int | None = None
    seed: int | None = None
    data: Path | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def scaled(self, count: int) -> int:
        """`count`, or a tenth of it in a quick run."""
        return max(1, count // 10) if self.quick else count

    def sized(self, name: str, count: int) -> int:
        """The size of this name if it was given, else `count`, or a tenth of it in a quick run."""
        return self.sizes.get(name) or self.scaled(count)
