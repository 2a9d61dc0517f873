"""What a call of the command imports: modules are counted, as times say little on a busy machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LIBRARIES = {"grpc", "pyarrow", "numpy", "rich", "pandas", "sqlglot", "duckdb", "sqlalchemy", "pyspark", "polars"}
_PROGRAM = """
import sys
{more}
from lakelog.cli.app import run
code = run(sys.argv[1:])
print(code, len(sys.modules), *sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
"""
_AWAY = ("-t", "127.0.0.1:1")
"""No metastore: the command imports all that it connects with, and fails."""


def modules_of(*arguments: str, code: int = 0, more: str = "") -> tuple[int, set[str]]:
    """How many modules a call imports, and which of the large libraries."""
    program = _PROGRAM.format(more=more)
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    found, count, *packages = done.stderr.splitlines()[-1].split()
    assert found == str(code), done.stderr
    return int(count), _LIBRARIES.intersection(packages)


@pytest.mark.parametrize(
    ("arguments", "most", "libraries"),
    [
        ("--help", 200, set()),
        ("--version", 200, set()),
        # They start processes, and share little with them.
        ("up --help", 300, {"rich"}),
        ("demo --help", 200, set()),
        # Help of commands whose output is made of plain values.
        ("grant --help", 200, set()),
        ("database --help", 270, {"rich"}),
        ("pipelines --help", 270, {"rich"}),
        # Those that show rows or schemas import Arrow.
        ("scan --help", 420, {"rich", "numpy", "pyarrow"}),
        ("sql --help", 420, {"rich", "numpy", "pyarrow"}),
        ("snapshots --help", 500, {"rich", "numpy", "pyarrow"}),
        ("insert --help", 600, {"rich", "numpy", "pyarrow"}),
    ],
)
def test_a_help_imports_no_more_than_its_command(arguments: str, most: int, libraries: set[str]) -> None:
    count, found = modules_of(*arguments.split())
    assert found <= libraries
    assert count < most


@pytest.mark.parametrize("arguments", ["database list", "table list a", "snapshots a.b"])
def test_a_command_that_connects_imports_no_engine(arguments: str) -> None:
    count, found = modules_of(*_AWAY, *arguments.split(), code=5)
    assert found == {"grpc", "numpy", "pyarrow", "rich"}
    assert count < 950


def test_connecting_imports_no_engine() -> None:
    program = "import sys, lakelog; lakelog.connect('127.0.0.1:1'); print(len(sys.modules), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    count, *modules = done.stdout.split()
    assert _LIBRARIES.intersection(modules) == {"grpc", "numpy", "pyarrow"}
    assert int(count) < 850


@pytest.mark.parametrize("library", ["pyarrow", "grpc"])
def test_control_a_library_that_comes_back_is_found(library: str) -> None:
    count, found = modules_of("--help", more=f"import {library}")
    assert library in found
    assert count > 200


def test_control_a_command_that_shows_rows_imports_arrow() -> None:
    assert "pyarrow" in modules_of("scan", "--help")[1]
