"""What the service's process does before it serves."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

_FIRST_ARRAY = "import pyarrow as pa; pa.array([1]); import sys; print(sys.modules.get('pandas') is not None)"


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_pandas_is_not_imported_while_commits_wait() -> None:
    assert run(f"from metastore.wiring import leave_pandas_out; leave_pandas_out(); {_FIRST_ARRAY}") == "False"


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_control_pyarrow_imports_pandas_with_its_first_array() -> None:
    assert run(f"import metastore.wiring; {_FIRST_ARRAY}") == "True"
