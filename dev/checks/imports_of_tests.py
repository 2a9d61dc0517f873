"""Helpers of tests have modules of their own, so that a test can be changed or dropped without another one noticing."""

from __future__ import annotations

from pathlib import Path

from dev.programs import tracked_files
from dev.rooms import find_imports

TITLE = "nothing imports a test module or a conftest (move what both need to tests/support, or beside the tests)"


def find_problems(root: Path) -> list[str]:
    """Each import of such a module, by whichever module of tests, benchmarks or tools."""
    files = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): path
        for path in tracked_files(root)
        if path.suffix == ".py" and path.parts[0] in ("tests", "bench", "dev")
    }
    kept_apart = {module for module, path in files.items() if _is_for_pytest_alone(path)}
    return [
        f"{path} imports {other}"
        for module, path in files.items()
        for other in sorted(find_imports(module, root / path) & kept_apart - {module})
    ]


def _is_for_pytest_alone(path: Path) -> bool:
    return path.parts[0] == "tests" and (path.stem == "conftest" or path.stem.startswith("test_"))
