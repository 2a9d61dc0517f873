"""What a service that holds a Spark session does to its own process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lakelog


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Leaves Ctrl-C to whoever had it before: PySpark would make it an exception in the midst of our work."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def let_workers_import(file: str, package: str, more: Sequence[Path] = ()) -> None:
    """Spark's Python processes find lakelog and a service where we found them. Call before the session is made.

    Args:
        file: A file of the service, right inside its package.
        package: The package's full name.
        more: Further folders to be found.
    """
    roots = [
        str(Path(lakelog.__file__).parents[1]),
        str(Path(file).parents[package.count(".") + 1]),
        *map(str, more),
    ]
    inherited = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*roots, *filter(None, inherited.split(os.pathsep))]))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
