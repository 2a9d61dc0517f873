"""What Spark forks its Python workers from, in sessions that lakelog makes on this machine.

It is PySpark's own daemon (`spark.python.daemon.module`) but for what each worker pays for in vain:

- Spark has its workers import PySpark from an archive of sources, beside which it stands as Python has compiled it.
  Each worker compiles them anew, which is 0.5 s of CPU.
- Behind each task Python reads the directories of all archives that it finds modules in, to see whether some have come:
  60 ms of CPU for PySpark's, and 40 for Spark's own jar, in which there are no modules.
A service's first batch has six workers on two cores. Nothing that starts threads is imported here, as PySpark asks for:
all workers are forked from this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def leave_archives_out(path: Iterable[str]) -> list[str]:
    """Where Python finds modules, without the archives of a PySpark that it finds as it is.

    Args:
        path: As `sys.path`.
    """
    entries = list(path)
    folders = {Path(entry).resolve() for entry in entries}
    return [entry for entry in entries if not _is_archive_of_installed(Path(entry).resolve(), folders)]


def _is_archive_of_installed(entry: Path, folders: set[Path]) -> bool:
    """Whether it is an archive of a PySpark that was installed in a folder of the path."""
    if entry.suffix == ".jar" and entry.parts[-3:-1] == ("pyspark", "jars"):
        needed, folder = "pyspark", entry.parents[2]
    elif entry.suffix == ".zip" and entry.parts[-4:-1] == ("pyspark", "python", "lib"):
        # What PySpark needs beside itself is installed with it, in the same folder: `py4j-0.10.9.9-src.zip`.
        needed, folder = entry.stem.partition("-")[0], entry.parents[3]
    else:
        return False
    return folder in folders and (folder / needed / "__init__.py").is_file()


def main(begin_worker: Callable[[], None] | None = None) -> None:
    """Forks workers until Spark ends; each begins with the call."""
    found = leave_archives_out(sys.path)
    for left_out in set(sys.path) - set(found):
        sys.path_importer_cache.pop(left_out, None)
    sys.path[:] = found
    if begin_worker is not None:
        os.register_at_fork(after_in_child=begin_worker)
    # Not before the path is what it is to be.
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
