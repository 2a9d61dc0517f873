"""Keeps pandas out of processes that do not need it, so that they do not wait for its import."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _WithoutPandas(MetaPathFinder):
    """Claims that pandas does not exist."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Hides pandas; for all other modules the next finder decides."""
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def leave_pandas_out() -> None:
    """Makes pyarrow convert its first Python values now, without pandas: it looks for pandas only once in a process.

    Otherwise pyarrow imports an installed pandas at that point, to see whether the values belong to it. On a busy
    machine that takes a second: at the start of a command or a service, or between two commits. Code that does need
    pandas, such as `to_pandas`, makes pyarrow look again, and imports it then.

    SUBTLE: pyarrow has no switch for this. Python hides modules by a None in `sys.modules`, but code that Cython made
        takes that None for the module.
    """
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
