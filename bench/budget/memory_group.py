"""A memory cgroup for a process: the kernel ends the process when it needs more than the limit."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryGroup:
    """A group that exists.

    Args:
        folder: Its folder.
        is_second_version: Whether it is one of cgroup v2.
    """

    folder: Path
    is_second_version: bool

    def command(self, command: Sequence[str]) -> list[str]:
        """A command that first enters the group, so that all of its memory counts."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def count_kills(self) -> int:
        """How many processes the kernel has ended because of the limit."""
        name = "memory.events" if self.is_second_version else "memory.oom_control"
        lines = (self.folder / name).read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def _limit(self, limit_bytes: int) -> None:
        names = ("memory.max", "memory.swap.max") if self.is_second_version else ("memory.limit_in_bytes",)
        for name, value in zip(names, (limit_bytes, 0), strict=False):
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).write_text(str(value), encoding="ascii")


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup | None]:
    """Makes a group, and removes it once its processes have ended; None: this process may not make groups."""
    first, second = _ROOT / "memory", _ROOT / "cgroup.controllers"
    parent = first if first.is_dir() else _ROOT
    group = MemoryGroup(parent / f"lakelog-{uuid.uuid4().hex[:8]}", parent == _ROOT)
    if (group.is_second_version and not second.exists()) or not os.access(parent, os.W_OK):
        yield None
        return
    try:
        group.folder.mkdir()
        group._limit(limit_bytes)
    except OSError:
        with contextlib.suppress(OSError):
            group.folder.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        with contextlib.suppress(OSError):
            group.folder.rmdir()
