"""Writes the notebooks of `examples/` from the Python files beside them.

Usage: `python -m dev.notebooks_page` writes them, `--check` fails when one is not current. A notebook has no outputs,
and its cells keep their ids while their text stays.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import jupytext

from dev.pages import ROOT, write_or_check_all

EXAMPLES: Final = ROOT / "examples"

_METADATA: Final = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def find_examples(folder: Path = EXAMPLES) -> list[Path]:
    """The examples' Python files, sorted: each has the name of its folder."""
    return sorted(path for path in folder.glob("*/*.py") if path.stem == path.parent.name)


def render_notebook(example: Path) -> str:
    """The notebook with an example's cells, as JSON."""
    notebook: Any = jupytext.read(example, fmt="py:percent")
    notebook.metadata.clear()
    notebook.metadata.update(_METADATA)
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        text = hashlib.sha256(cell.source.encode()).hexdigest()[:12]
        seen[text] += 1
        cell["id"] = text if seen[text] == 1 else f"{text}-{seen[text]}"
    text = str(jupytext.writes(notebook, fmt="ipynb"))
    return text if text.endswith("\n") else text + "\n"


def list_notebooks(folder: Path = EXAMPLES) -> Mapping[Path, Callable[[], str]]:
    """The notebook of each example, with what renders it."""
    return {example.with_suffix(".ipynb"): partial(render_notebook, example) for example in find_examples(folder)}


if __name__ == "__main__":
    sys.exit(write_or_check_all(list_notebooks(), "-m dev.notebooks_page", __doc__ or ""))
