"""What a call of the command imports: modules are counted, as times say little on a busy machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = {"grpc", "pyarrow", "numpy", "rich", "pandas", "sqlglot", "duckdb", "sqlalchemy"}
_PROGRAM = """
import sys
from lakelog.cli.app import run
code = run(sys.argv[1:])
print(code, len(sys.modules), *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def modules_of(*arguments: str) -> tuple[int, set[str]]:
    """How many modules a call imports, and the packages they belong to."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    code, count, *packages = done.stderr.split()
    assert code == "0", done.stderr
    return int(count), set(packages)


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_import_no_command(argument: str) -> None:
    count, packages = modules_of(argument)
    assert not packages & _HEAVY
    assert count < 250


def test_a_command_imports_no_other() -> None:
    _, packages = modules_of("up", "--help")
    assert not packages & {"sqlglot", "duckdb", "pandas"}


def test_control_a_command_that_shows_rows_imports_arrow() -> None:
    assert "pyarrow" in modules_of("scan", "--help")[1]
