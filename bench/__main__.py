"""Measures a workload: `python -m bench W1 [--quick] [--json FILE]`; without a name, the list of them.

`python -m bench report FILE ...` turns results that were written with `--json` into a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError
from bench.registry import Workload, load_workloads
from bench.report import print_figures, to_markdown, write_json

_REPORT = "report"
_SIZE = "how many of something, of workloads that name what they count; can be repeated"


def main(arguments: list[str] | None = None) -> int:
    """Runs a workload; 0 when its answers were right, whatever its speed."""
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", nargs="?", help="for instance W1, or W1-spark; without one, the list")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="with 'report': results to put together")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, about a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there as well")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw what a picture tells better there")
    parser.add_argument("--pairs", type=int, default=5, help="how many pairs of runs count (default 5)")
    parser.add_argument("--runs", type=int, help="how many runs, of workloads that make random ones")
    parser.add_argument("--seed", type=int, help="of the first of these runs")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="keep data that is built first there, and use it")
    parser.add_argument("--size", type=_read_size, action="append", default=[], metavar="NAME=COUNT", help=_SIZE)
    chosen = parser.parse_args(arguments)
    console = Console(width=max(150, Console().width))
    if chosen.workload == _REPORT:
        if not chosen.files:
            parser.error("report needs the files of results: report FILE ...")
        print(to_markdown([json.loads(file.read_text(encoding="utf-8")) for file in chosen.files]), end="")
        return 0
    if chosen.files:
        parser.error(f"{chosen.files[0]}: files are only for 'report'; a result is written with --json FILE")
    workloads = load_workloads()
    if chosen.workload is None:
        for workload in workloads.values():
            console.print(f"{workload.name:9} {workload.title}", highlight=False)
        console.print(f"{_REPORT:9} FILE ...: results of --json as a table in Markdown", highlight=False)
        return 0
    by_name = {name.lower(): workload for name, workload in workloads.items()}
    if chosen.workload.lower() not in by_name:
        parser.error(f"there is no workload {chosen.workload!r}; there are {', '.join(workloads)}")
    return _run(by_name[chosen.workload.lower()], chosen, console)


def _read_size(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    return name, int(count)


def _run(workload: Workload, chosen: argparse.Namespace, console: Console) -> int:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="lakelog-bench-") as folder:
        context = Bench(
            chosen.quick,
            Path(folder),
            console,
            chosen.pairs,
            chosen.plots,
            chosen.runs,
            chosen.seed,
            chosen.data,
            dict(chosen.size),
        )
        try:
            for figure in workload.run(context):
                figures.append(figure)
                console.print(f"  {figure.name}: {figure.ours:.4g} {figure.unit}", highlight=False)
        except WrongAnswerError as wrong:
            console.print(f"[red]void:[/] {wrong}")
            return 1
    print_figures(f"{workload.name}  {workload.title}", figures, console)
    if chosen.json is not None:
        write_json(chosen.json, workload.name, chosen.quick, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
