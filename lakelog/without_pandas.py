"""Processes that have no use for pandas do not wait for it."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _WithoutPandas(MetaPathFinder):
    """Finds no pandas."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Says that there is no pandas; of all else others know."""
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def leave_pandas_out() -> None:
    """Has pyarrow make its first array of Python's values now, and find no pandas: it looks once in a process.

    Where pandas is installed pyarrow would import it then, to see whether the values are pandas' own, which takes a
    second on a busy machine: at the start of a command or a service, or between two commits that wait for it. What
    needs pandas all the same, as `to_pandas`, asks pyarrow for it once more, and then it is imported.

    SUBTLE: pyarrow has no switch for this, and a None in `sys.modules`, by which Python itself hides modules, is taken
        for the module by code that Cython made.
    """
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
