"""`python -m tests.e2e.examples.notebook_process NOTEBOOK ARGUMENTS`: runs the cells of a notebook in turn.

As a kernel does: each cell is compiled by itself, and all share one module `__main__`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(notebook: Path, arguments: list[str]) -> None:
    sys.argv = [str(notebook), *arguments]
    names = vars(sys.modules["__main__"])
    for number, cell in enumerate(json.loads(notebook.read_text())["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
