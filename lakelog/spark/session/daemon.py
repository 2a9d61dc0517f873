"""The process from which Spark forks its Python workers, in sessions that lakelog makes on this machine.

It is PySpark's own daemon (`spark.python.daemon.module`) without two costs of each worker:

- Spark has its workers import PySpark from an archive of sources, although Python has it compiled beside the archive.
  Each worker compiles the sources again, which takes 0.5 s of CPU.
- After each task Python reads the directories of all archives on the module path, to see whether modules were added:
  60 ms of CPU for PySpark's, and 40 for Spark's own jar, which has no modules.

A service's first batch has six workers on two cores. Nothing that starts threads is imported here, as PySpark requires:
all workers are forked from this process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def leave_archives_out(path: Iterable[str]) -> list[str]:
    """The module path without the archives of a PySpark that is also installed.

    Args:
        path: A path in the form of `sys.path`.
    """
    entries = list(path)
    folders = {Path(entry).resolve() for entry in entries}
    return [entry for entry in entries if not _is_archive_of_installed(Path(entry).resolve(), folders)]


def _is_archive_of_installed(entry: Path, folders: set[Path]) -> bool:
    """Whether an entry is the archive of a PySpark that is installed in a folder of the path."""
    if entry.suffix == ".jar" and entry.parts[-3:-1] == ("pyspark", "jars"):
        needed, folder = "pyspark", entry.parents[2]
    elif entry.suffix == ".zip" and entry.parts[-4:-1] == ("pyspark", "python", "lib"):
        # PySpark's own requirements are installed in the same folder: `py4j-0.10.9.9-src.zip`.
        needed, folder = entry.stem.partition("-")[0], entry.parents[3]
    else:
        return False
    return folder in folders and (folder / needed / "__init__.py").is_file()


def main(begin_worker: Callable[[], None] | None = None) -> None:
    """Forks workers until Spark ends; each worker begins with the call."""
    found = leave_archives_out(sys.path)
    for left_out in set(sys.path) - set(found):
        sys.path_importer_cache.pop(left_out, None)
    sys.path[:] = found
    if begin_worker is not None:
        os.register_at_fork(after_in_child=begin_worker)
    # Imported only after the path is final.
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
