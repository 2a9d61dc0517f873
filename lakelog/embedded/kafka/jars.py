"""The jars of Apache Kafka: found in a cache folder or downloaded once by Maven coordinates, and always checked.

Rules:
1. Java gets only jars with the SHA-256 sum in `jars.txt`, from whatever source.
2. Only a complete jar has its name: it is downloaded under another name, checked, and renamed.
3. If all jars are there, nothing uses a network.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from lakelog.embedded.java import java_home
from lakelog.errors import DataCorrupted, NotFound, Unavailable

_log = logging.getLogger(__name__)

KAFKA_VERSION: Final = "4.3.1"

_LIST: Final = Path(__file__).with_name("jars.txt")
_MAVEN_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_FETCHED_WITHIN_S: Final = 900.0
"""Enough for 44 MB and as many descriptions, over a slow line."""
_UNFINISHED: Final = "unfinished."
_LONGEST_PROBLEM: Final = 400
"""The most characters of another program's output in a message of ours."""


@dataclass(frozen=True)
class Jar:
    """One jar by its Maven coordinates.

    Args:
        group: For instance `org.apache.kafka`.
        artifact: For instance `kafka-clients`.
        version: For instance `4.3.1`.
        sha256: The sum of its bytes, in hexadecimal digits.
    """

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Its file name, for Maven as well as Ivy."""
        return f"{self.artifact}-{self.version}.jar"


@cache
def list_kafka_jars() -> tuple[Jar, ...]:
    """All jars that a broker needs, from the committed list."""
    jars = []
    for line in _LIST.read_text().splitlines():
        if not line.startswith("#"):
            sha256, coordinates = line.split()
            group, artifact, version = coordinates.split(":")
            jars.append(Jar(group, artifact, version, sha256))
    return tuple(jars)


def find_kafka_jars(
    environment: Mapping[str, str], *, folder: Path | None = None, jars: Sequence[Jar] | None = None
) -> list[Path]:
    """Finds the jars, and downloads missing ones; blocks for some 0.1 s if all are there.

    Any number of processes may do so at once: one downloads, the others wait for it.

    Args:
        environment: The variables that lead to programs, proxies and the user's cache folder, for instance
            `os.environ`.
        folder: The folder for the jars; None: `lakelog` in the user's cache folder.
        jars: The jars to find; None: the list of `list_kafka_jars`.

    Returns:
        Their paths, each checked.

    Raises:
        DataCorrupted: A jar is not the expected one; reason `KAFKA_JAR_CHANGED`.
        Unavailable: Jars are missing and could not be downloaded; reason `KAFKA_JARS_MISSING`.
    """
    wanted = list_kafka_jars() if jars is None else tuple(jars)
    place = folder or _cache_folder(environment)
    if _find_missing(wanted, place):
        with _locked(place):
            # Checked again: an earlier holder of the lock may have downloaded them.
            missing = _find_missing(wanted, place)
            if missing:
                _fetch(missing, place, environment)
    for jar in wanted:
        remedy = "Delete that file, and it is fetched again."
        _check_jar(jar, place / jar.file_name, remedy)
    return [place / jar.file_name for jar in wanted]


def _check_jar(jar: Jar, file: Path, remedy: str) -> None:
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != jar.sha256:
        raise DataCorrupted(
            f"{file} is not {jar.group}:{jar.artifact}:{jar.version} as it was published: its SHA-256 sum is {found} "
            f"and must be {jar.sha256}. {remedy}",
            reason="KAFKA_JAR_CHANGED",
            metadata={"file": str(file), "sha256": found, "expected": jar.sha256},
        )


def _cache_folder(environment: Mapping[str, str]) -> Path:
    cache_home = environment.get("XDG_CACHE_HOME") or os.path.join(
        environment.get("HOME") or tempfile.gettempdir(), ".cache"
    )
    return Path(cache_home) / "lakelog" / f"kafka-{KAFKA_VERSION}"


def _find_missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not (folder / jar.file_name).exists()]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "fetching.lock").open("a") as lock:
        # The kernel releases it, in whatever way this process ends.
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left_over in folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left_over, ignore_errors=True)
        yield


def _fetch(missing: Sequence[Jar], folder: Path, environment: Mapping[str, str]) -> None:
    _log.warning("fetching %d jars of Kafka %s into %s, once", len(missing), KAFKA_VERSION, folder)
    ways = {"mvn": _fetch_with_maven, "Ivy": _fetch_with_ivy}
    problems = []
    for name, way in ways.items():
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder) as made:
            try:
                way(missing, Path(made), environment)
            except NotFound as error:
                problems.append(f"{name}: {error}")
                continue
            for jar in missing:
                remedy = f"It came by {name} and was not kept: ask the owner of the mirror that it uses."
                _check_jar(jar, Path(made) / "jars" / jar.file_name, remedy)
            for jar in missing:
                (Path(made) / "jars" / jar.file_name).rename(folder / jar.file_name)
            return
    names = ", ".join(jar.file_name for jar in missing[:3]) + (", ..." if len(missing) > 3 else "")
    raise Unavailable(
        f"{len(missing)} of the jars of Kafka {KAFKA_VERSION} are missing in {folder} ({names}) and could not be "
        f"fetched. {' '.join(problems)} Connect this machine, name your mirror in Maven's settings.xml, copy the jars "
        "into that folder, or use a Kafka that runs elsewhere.",
        reason="KAFKA_JARS_MISSING",
        metadata={"folder": str(folder), "missing": str(len(missing))},
    )


def _fetch_with_maven(jars: Sequence[Jar], folder: Path, environment: Mapping[str, str]) -> None:
    """Maven knows the user's own mirrors, proxies and credentials, so it comes first."""
    program = shutil.which("mvn", path=environment.get("PATH", ""))
    if program is None:
        raise NotFound("it is not on the search path.")
    # Resolves only what is named here, so that Maven and Ivy bring the same jars.
    dependencies = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for jar in jars
    )
    project = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>lakelog</groupId><artifactId>kafka</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    (folder / "pom.xml").write_text(project)
    goal = [_MAVEN_GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"]
    _run([program, "--batch-mode", "--quiet", "-Dstyle.color=never", *goal], folder, environment, jars)


def _fetch_with_ivy(jars: Sequence[Jar], folder: Path, environment: Mapping[str, str]) -> None:
    """Ivy needs nothing beyond an installed Spark."""
    ivy = _find_ivy()
    java = java_home(environment) / "bin" / "java"
    dependencies = "".join(
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" conf="default->master"/>'
        for jar in jars
    )
    module = (
        '<ivy-module version="2.0"><info organisation="lakelog" module="kafka"/>'
        f"<configurations><conf name='default'/></configurations><dependencies>{dependencies}</dependencies>"
        "</ivy-module>"
    )
    (folder / "ivy.xml").write_text(module)
    command = [str(java), "-jar", str(ivy), "-ivy", "ivy.xml", "-cache", str(folder / "cache"), "-confs", "default"]
    pattern = f"{folder / 'jars'}/[artifact]-[revision].[ext]"
    _run([*command, "-retrieve", pattern], folder, environment, jars)


def _find_ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(place).glob("jars/ivy-*.jar")):
            return jar
    raise NotFound("PySpark, which brings it, is not installed.")


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str], jars: Sequence[Jar]) -> None:
    """Runs a program that should bring `jars` into the folder; NotFound if some are missing afterwards."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=_FETCHED_WITHIN_S,
        )
    except subprocess.TimeoutExpired:
        raise NotFound(f"it was not done within {_FETCHED_WITHIN_S:g} s and was ended.") from None
    missing = _find_missing(jars, folder / "jars")
    if missing:
        words = _find_problem(done.stdout.splitlines())
        raise NotFound(f"it ended with exit code {done.returncode} and without {missing[0].file_name}: {words}.")
    if done.returncode != 0:
        raise NotFound(f"it ended with exit code {done.returncode}: {_find_problem(done.stdout.splitlines())}.")


def _find_problem(lines: Sequence[str]) -> str:
    """The first line of a program's output that reports an error, else the last line. Pure."""
    said = [line.strip() for line in lines if line.strip()]
    errors = [line for line in said if "ERROR" in line or "not found" in line]
    return (errors or said[-1:] or ["it said nothing"])[0][:_LONGEST_PROBLEM].rstrip(".")
