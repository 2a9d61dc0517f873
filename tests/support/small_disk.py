"""A tiny file system in the place of a folder, so that a disk can be full and have room again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """Mounted file systems in memory, each as small as said."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    def resize(self, size: str) -> None:
        """Gives each another size, for instance `8m`."""
        for folder in self._folders:
            mount(folder, f"remount,size={size}")


@contextmanager
def small_disk(folders: Sequence[Path], size: str) -> Iterator[SmallDisk]:
    """Mounts one on each folder for the length of the block; skips the test where that is not allowed."""
    mounted: list[Path] = []
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                mount(folder, f"size={size}")
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"only root may mount a small file system, and not in every container: {error}")
            mounted.append(folder)
        yield SmallDisk(folders)
    finally:
        for folder in mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, capture_output=True)
