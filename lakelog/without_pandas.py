"""Keeps libraries out of processes that do not need them, so that they do not wait for their import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import pyarrow as pa


class _Hiding(MetaPathFinder):
    """Claims that a module does not exist."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Hides the module; for all others the next finder decides."""
        if name == self._name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def hiding(name: str) -> Iterator[None]:
    """Inside the block a library that could use a module, but need not, does not find it. Not for threads.

    SUBTLE: Python hides modules by a None in `sys.modules`, too, but code that Cython made takes that None for the
        module.
    """
    finder = _Hiding(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def leave_pandas_out() -> None:
    """Makes pyarrow convert its first Python values now, without pandas: it looks for pandas only once in a process.

    Otherwise pyarrow imports an installed pandas at that point, to see whether the values belong to it. On a busy
    machine that takes a second: at the start of a command or a service, or between two commits. Code that does need
    pandas, such as `to_pandas`, makes pyarrow look again, and imports it then.

    SUBTLE: pyarrow has no switch for this.
    """
    with hiding("pandas"):
        pa.array([0])
