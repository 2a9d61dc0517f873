"""Where the classes for the next start of Spark's Java are stored (`lakelog.spark.class_archive`)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from lakelog.embedded.java import java_home

_RETRY_AFTER_S: Final = 86_400.0
"""A failed try is not repeated before this: each takes half a minute of CPU."""

_LAYOUT: Final = 2
"""Counts up when files of earlier versions do not fit any more: those before 2 can have jars' paths with links."""


def archive_options(spark_home: Path) -> list[str]:
    """Options for a Java that uses the file; none if it does not exist."""
    folder = archive_folder(spark_home)
    return to_options(folder) if is_made(folder) else []


def to_options(folder: Path) -> list[str]:
    """Options that name the file in a folder, whether it exists or not. Java ignores one that does not fit. Pure."""
    base, top = find_files(folder)
    return ["-Xlog:disable", f"-XX:SharedArchiveFile={base}:{top}"]


def archive_folder(spark_home: Path) -> Path:
    """The folder for this Java and these jars; other ones have other folders."""
    environment = os.environ
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(
        environment.get("HOME") or tempfile.gettempdir(), ".cache"
    )
    known = [
        (place.resolve(), place.stat().st_mtime_ns if place.exists() else 0)
        for place in (java_home(environment) / "bin" / "java", spark_home / "jars")
    ]
    return Path(cache) / "lakelog" / "spark-classes" / hashlib.sha256(repr((_LAYOUT, known)).encode()).hexdigest()[:12]


def make_in_background(spark_home: Path) -> subprocess.Popen[bytes] | None:
    """Starts a process that makes the file and outlives this one; None: the file exists, or could not be made."""
    folder = archive_folder(spark_home)
    if is_made(folder):
        return None
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime < _RETRY_AFTER_S:
            return None  # It is being made, or failed.
    quiet = subprocess.DEVNULL
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "lakelog.spark.class_archive"]
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, env=environment)


def find_files(folder: Path) -> tuple[Path, Path]:
    """The file with Java's own classes in a folder, and the one with Spark's. Pure."""
    return folder / "java.jsa", folder / "spark.jsa"


def is_made(folder: Path) -> bool:
    """Whether a folder has both files."""
    return find_files(folder)[1].exists()
