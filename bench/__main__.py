"""`python -m bench W1 [--quick] [--json FILE]`: one workload a command; without a name, the list of them."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

import bench.workloads
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError
from bench.report import print_figures, write_json


def workload_names() -> list[str]:
    """All workloads, by number."""
    names = [module.name for module in pkgutil.iter_modules(bench.workloads.__path__)]
    return sorted(names, key=lambda name: int(name.lstrip("w")))


def main(arguments: list[str] | None = None) -> int:
    """Runs a workload; 0 when its answers were right, whatever its speed."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("workload", nargs="?", help="for instance W1; without one, the list")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, at most a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there as well")
    parser.add_argument("--pairs", type=int, default=5, help="how many pairs of runs count (default 5)")
    chosen = parser.parse_args(arguments)
    console = Console(width=max(150, Console().width))
    names = workload_names()
    if chosen.workload is None:
        for name in names:
            console.print(f"{name.upper():4} {importlib.import_module(f'bench.workloads.{name}').TITLE}")
        return 0
    if chosen.workload.lower() not in names:
        parser.error(f"there is no workload {chosen.workload!r}; there are {', '.join(n.upper() for n in names)}")
    module = importlib.import_module(f"bench.workloads.{chosen.workload.lower()}")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        context = Bench(chosen.quick, Path(folder), console, chosen.pairs)
        try:
            for figure in module.run(context):
                figures.append(figure)
                console.print(f"  {figure.name}: {figure.ours:.4g} {figure.unit}", highlight=False)
        except WrongAnswerError as wrong:
            console.print(f"[red]void:[/] {wrong}")
            return 1
    print_figures(f"{chosen.workload.upper()}  {module.TITLE}", figures, console)
    if chosen.json is not None:
        write_json(chosen.json, chosen.workload.upper(), chosen.quick, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
