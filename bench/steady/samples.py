"""What is sampled of a stack: memory, threads, open files, connections, files of tables, and sizes of the database."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import psutil
import psycopg

_SIZES: Final = """
select relname, pg_total_relation_size(oid) from pg_class
where relkind = 'r' and relnamespace = 'public'::regnamespace
"""
_CONNECTIONS: Final = "select count(*) from pg_stat_activity where backend_type = 'client backend'"
_MIB: Final = 1 << 20


def sample(services: dict[str, psutil.Process], database: psycopg.Connection, warehouse: Path) -> dict[str, float]:
    """One sample: values by the name of what they measure.

    Args:
        services: The services' processes by name; each counts with all its children.
        database: A connection to the metastore's database, which commits by itself.
        warehouse: The folder of the tables' files.

    Returns:
        Memory (the share of shared pages that is a process's own counts) and the database's sizes in MiB; else numbers.
    """
    found: dict[str, float] = {}
    for name, root in services.items():
        processes = [root, *root.children(recursive=True)]
        found[f"memory of {name}"] = _total(processes, lambda process: process.memory_full_info().pss) / _MIB
        found[f"threads of {name}"] = _total(processes, psutil.Process.num_threads)
        found[f"open files of {name}"] = _total(processes, psutil.Process.num_fds)
    found["connections to the database"] = float(database.execute(_CONNECTIONS).fetchone()[0])  # type: ignore[index]
    sizes = {name: size / _MIB for name, size in database.execute(_SIZES)}
    found["tables of the database"] = sum(sizes.values())
    found |= {f"table {name}": size for name, size in sizes.items()}
    # Unlike a glob it passes over folders that are deleted meanwhile.
    found["files in the warehouse"] = sum(len(files) for _, _, files in os.walk(warehouse))
    return found


def _total(processes: Sequence[psutil.Process], measure: Callable[[psutil.Process], float]) -> float:
    """The sum over those that have not ended meanwhile, as processes of Postgres do after each connection."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += measure(process)
    return total
