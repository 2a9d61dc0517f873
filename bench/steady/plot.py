"""Draws samples over time, in a panel for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl

_PANELS: Final = {
    "memory of ": "memory, MiB",
    "threads of ": "threads",
    "open files of ": "open files",
    "connections": "connections to the database",
    "table ": "tables of the database, MiB",
    "files in": "files in the warehouse",
    "ms ": "milliseconds",
}
_LARGEST: Final = 6


def plot_samples(samples: Mapping[str, Sequence[float]], every_s: float, path: Path) -> None:
    """Writes the picture.

    Args:
        samples: Values by name, one each `every_s` seconds.
        every_s: Seconds between two samples.
        path: An SVG or PNG.
    """
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(_PANELS), 1, sharex=True, figsize=(10, 18), layout="constrained")
    for axis, (prefix, title) in zip(axes, _PANELS.items(), strict=True):
        names = sorted((name for name in samples if name.startswith(prefix)), key=lambda name: -samples[name][-1])
        for name in names[: _LARGEST if prefix == "table " else None]:
            minutes = [every_s * (number + 1) / 60 for number in range(len(samples[name]))]
            axis.plot(minutes, samples[name], label=name.removeprefix(prefix), linewidth=1)
        axis.set_title(title, fontsize=10)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, ncols=3, loc="upper left")
    axes[-1].set_xlabel("minutes")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
