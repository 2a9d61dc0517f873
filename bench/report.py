"""How a result is shown: a table for people, JSON for programs, and rows for the page from several results."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from bench.measure import Figure


def machine() -> dict[str, object]:
    """What the figures were measured on: processor, cores, memory, versions."""
    import numpy
    import pyarrow
    import pyspark

    return {
        "processor": _processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "pyarrow": pyarrow.__version__,
        "numpy": numpy.__version__,
        "pyspark": pyspark.__version__,
    }


def _processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def print_figures(title: str, figures: Sequence[Figure], console: Console) -> None:
    """Prints a table of figures with what was aimed at."""
    table = Table(title=title, title_justify="left")
    for heading in ("figure", "ours", "reference", "ratio", "min-max", "n", "target", "CPU s", "peak MiB"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for figure in figures:
        table.add_row(*_cells(figure))
    console.print(table)


def _cells(figure: Figure) -> tuple[str, ...]:
    mark = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[figure.met]
    target = "" if figure.aim is None else f"{figure.aim} {mark}"
    return (
        figure.name,
        f"{figure.ours:.4g} {figure.unit}",
        "" if figure.reference is None else f"{figure.reference:.4g} {figure.unit}",
        "" if figure.ratio is None else f"{figure.ratio:.3g}",
        f"{figure.min:.3g}-{figure.max:.3g}",
        str(figure.n),
        target,
        _pair(figure.ours_cpu_s, figure.reference_cpu_s),
        _pair(figure.ours_peak_mib, figure.reference_peak_mib),
    )


def _pair(ours: float | None, reference: float | None) -> str:
    return "" if ours is None else f"{ours:.3g} / {reference:.3g}"


def write_json(path: Path, workload: str, quick: bool, figures: Sequence[Figure]) -> None:
    """Writes a result; a result that is written was checked, for a wrong answer ends the run."""
    document = {
        "workload": workload,
        "quick": quick,
        "machine": machine(),
        "load_average": round(os.getloadavg()[0], 1),
        "checked": True,
        "figures": [dataclasses.asdict(figure) for figure in figures],
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def to_markdown(documents: Sequence[dict[str, Any]]) -> str:
    """Results as a table in Markdown, in the order given; behind it a line on each machine. Pure.

    Args:
        documents: What `write_json` wrote.
    """
    lines = [
        "| workload | figure | ours | reference | ratio | range | n | target | |",
        "|---|---|---:|---:|---:|---:|---:|---|---|",
    ]
    for document in documents:
        workload = document["workload"] + (" (quick)" if document["quick"] else "")
        lines += [_markdown_row(workload, figure) for figure in document["figures"]]
    return "\n".join([*lines, "", *dict.fromkeys(map(_taken_on, documents))]) + "\n"


def _markdown_row(workload: str, figure: dict[str, Any]) -> str:
    met = {True: "met", False: "**missed**", None: ""}[figure["met"]]
    reference = "" if figure["reference"] is None else f"{figure['reference']:.3g} {figure['unit']}"
    ratio = "" if figure["ratio"] is None else f"{figure['ratio']:.3g}"
    cells = [
        workload,
        figure["name"],
        f"{figure['ours']:.3g} {figure['unit']}",
        reference,
        ratio,
        f"{figure['min']:.3g}-{figure['max']:.3g}",
        str(figure["n"]),
        figure["aim"] or "",
        met,
    ]
    return f"| {' | '.join(cells)} |"


def _taken_on(document: dict[str, Any]) -> str:
    machine = document["machine"]
    return (
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gib']} GiB, {machine['system']}; Python "
        f"{machine['python']}, pyarrow {machine['pyarrow']}, numpy {machine['numpy']}, PySpark {machine['pyspark']}. "
        f"Load average afterwards: {document['load_average']}."
    )
