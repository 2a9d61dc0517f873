"""Files stay small enough to be read at a sitting."""

from __future__ import annotations

from pathlib import Path

from dev.programs import tracked_files

TITLE = "no Python file has more than 600 lines (look for the second noun in it)"

LONGEST = 600
"""Half of all files have fewer than 120. A lower wall cut files where their subject did not."""

ALLOWED: dict[str, str] = {}
"""Path -> why this file may be longer. An entry whose file is short again is a problem itself."""


def find_problems(root: Path) -> list[str]:
    """Files that are too long, and permissions that nobody needs."""
    lengths = {
        str(path): len((root / path).read_bytes().splitlines())
        for path in tracked_files(root)
        if path.suffix == ".py" and not path.stem.endswith("_pb2")
    }
    long = {path for path, length in lengths.items() if length > LONGEST}
    problems = [f"{path} has {lengths[path]} lines" for path in sorted(long - ALLOWED.keys())]
    return problems + [f"{path} does not need its exception any more" for path in sorted(ALLOWED.keys() - long)]
