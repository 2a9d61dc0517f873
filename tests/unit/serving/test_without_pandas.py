"""What commands and services do not wait for."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")

_FIRST_ARRAY = "import pyarrow as pa, sys; pa.array([1]); print(sys.modules.get('pandas') is not None)"


def run(program: str) -> str:
    """The last line that a program prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("service", ["metastore", "writer", "compactor"])
def test_no_service_imports_what_it_does_not_need(service: str) -> None:
    start = f"""
from {service}.__main__ import main
import sys
sys.argv[1:] = ["--help"]
try:
    main({"" if service == "metastore" else "sys.argv[1:]"})
except SystemExit:
    pass
"""
    unneeded = "print([name for name in ('pandas', 'rich', 'alembic') if name in sys.modules])"
    assert run(f"{start}import pyarrow as pa; pa.array([1]); {unneeded}") == "[]"


def test_rich_is_there_for_what_needs_it() -> None:
    assert run("import lakelog.serving.logging_setup, rich.console; print(rich.console.Console.__name__)") == "Console"


def test_what_needs_pandas_gets_it_all_the_same() -> None:
    program = "from lakelog.without_pandas import leave_pandas_out; leave_pandas_out(); import pyarrow as pa; "
    assert run(f"{program} print(pa.table({{'a': [7]}}).to_pandas()['a'].sum())") == "7"


def test_control_pyarrow_imports_pandas_with_its_first_array() -> None:
    assert run(f"import metastore.__main__; {_FIRST_ARRAY}") == "True"


def test_importing_lakelog_makes_no_arrays() -> None:
    """Nor what each new Python process of Spark imports. With its first array pyarrow imports pandas: half a second."""
    modules = (
        "lakelog, lakelog.cli.app, lakelog.log.codecs, lakelog.spark.source.data_source, lakelog.spark.stream.reader"
    )
    assert run(f"import {modules}, lakelog.spark.executor.write, sys; print('pandas' in sys.modules)") == "False"
