"""What a service with a Spark session changes in its own process."""

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
    """Keeps the earlier handler of Ctrl-C: PySpark would raise an exception in the middle of our work."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def let_workers_import(file: str, package: str, more: Sequence[Path] = ()) -> None:
    """Lets Spark's Python processes import lakelog and a service as this one does. Call it before making the session.

    Args:
        file: A file directly inside the service's package.
        package: The package's full name.
        more: Further folders to import from.
    """
    roots = [
        str(Path(lakelog.__file__).parents[1]),
        str(Path(file).parents[package.count(".") + 1]),
        *map(str, more),
    ]
    inherited = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*roots, *filter(None, inherited.split(os.pathsep))]))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
