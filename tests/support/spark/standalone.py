"""A standalone cluster of Spark: a master and workers as processes of their own, which share nothing but the machine.

Each worker is as on another host: it has its own working folder, home, local copies, temporary files and installation
of lakelog, an unpacked wheel, and no variable of this process but those that every program needs. Executors of a
worker inherit its environment.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from lakelog.embedded.java import java_home
from lakelog.embedded.ports import free_ports
from lakelog.spark.session.gateway import find_spark_home
from lakelog.storage.objects.store import S3Settings
from tests.support.repository import ROOT
from tests.support.spark.spark_classes import options_with_classes

DRIVER_ADDRESS: Final = "127.0.2.1"
"""Of driver programs: executors are given it, and not the loopback address of a session on one machine."""

_START_WITHIN_S: Final = 90.0
_END_WITHIN_S: Final = 30.0
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ")
_SERVICES: Final = ("metastore", "writer", "reader", "compactor")


def build_wheel(folder: Path) -> Path:
    """Builds lakelog's wheel from a copy of the sources; some three seconds."""
    source = folder / "source"
    for name in ("lakelog", *_SERVICES):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def unpack(wheel: Path, folder: Path) -> Path:
    """Installs a wheel by unpacking it, as its files need nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def s3_variables(settings: S3Settings) -> dict[str, str]:
    """The variables by which a process reaches a store."""
    found = {
        "LAKELOG_S3_ENDPOINT": settings.endpoint,
        "LAKELOG_S3_REGION": settings.region,
        "LAKELOG_S3_ACCESS_KEY_ID": settings.access_key_id,
        "LAKELOG_S3_SECRET_ACCESS_KEY": settings.secret_access_key,
    }
    return {name: str(value) for name, value in found.items() if value}


@dataclass
class Machine:
    """A worker, as far as it stands for a machine of its own.

    Args:
        address: Where it listens, a loopback address of its own.
        folder: Everything of it.
        site: Its installation of lakelog.
        process: The worker's daemon; None: it is not running.
    """

    address: str
    folder: Path
    site: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "worker.log"

    @property
    def cache(self) -> Path:
        """Local copies of data files."""
        return self.folder / "copies"


class StandaloneCluster:
    """A master and workers, each with one core.

    Args:
        folder: For all of their files.
        wheel: What workers have of lakelog.
        s3: The store, as executors reach it.
        workers: How many.
    """

    def __init__(self, folder: Path, wheel: Path, s3: S3Settings, workers: int = 2) -> None:
        self.folder = folder
        self.machines = [
            Machine(
                f"127.0.1.{number + 1}",
                folder / f"machine-{number}",
                unpack(wheel, folder / f"machine-{number}" / "site"),
            )
            for number in range(workers)
        ]
        self.driver_site = unpack(wheel, folder / "driver-site")
        # Spark unpacks archives by the ends of their names.
        self.packed = Path(shutil.copy(wheel, folder / "packed.zip"))
        self._s3 = s3
        (self._port,) = free_ports(1)
        self._master: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for `spark.master`."""
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        log = self.folder / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", "0"]
        home = self.folder / "master"
        home.mkdir(parents=True, exist_ok=True)
        self._master = _start_daemon("master.Master", arguments, self._environment(home), home, log)
        try:
            _until(lambda: _says(log, "I have been elected leader"), log, self._master)
            for machine in self.machines:
                self.start_worker(machine, wait=False)
            for machine in self.machines:
                self.wait_for(machine)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._master is not None:
            self._master.kill()
            self._master.wait()
        for machine in self.machines:
            self.kill_worker(machine)
        # What they have started would write into folders that are being deleted.
        give_up_s = time.monotonic() + _END_WITHIN_S
        while left := [process for machine in self.machines for process in self._processes_of(machine)]:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            assert time.monotonic() < give_up_s, f"processes {left} do not end"
            time.sleep(0.05)

    def start_worker(self, machine: Machine, *, wait: bool = True) -> None:
        """Starts a worker, again if it was killed."""
        for part in ("home", "work", "tmp"):
            (machine.folder / part).mkdir(parents=True, exist_ok=True)
        environment = {
            **self._environment(machine.folder / "home"),
            "TMPDIR": str(machine.folder / "tmp"),
            "SPARK_LOCAL_DIRS": str(machine.folder / "tmp"),
            "LAKELOG_CACHE_DIR": str(machine.cache),
            "PYTHONPATH": str(machine.site),
            **s3_variables(self._s3),
        }
        arguments = ["--host", machine.address, "--cores", "1", "--memory", "2g", "--webui-port", "0"]
        arguments += ["--work-dir", str(machine.folder / "work"), self.url]
        machine.log.unlink(missing_ok=True)
        machine.process = _start_daemon("worker.Worker", arguments, environment, machine.folder, machine.log)
        if wait:
            self.wait_for(machine)

    def wait_for(self, machine: Machine) -> None:
        """Waits until a worker is part of the cluster."""
        assert machine.process is not None
        _until(lambda: _says(machine.log, "Successfully registered with master"), machine.log, machine.process)

    @contextmanager
    def without_installations(self) -> Iterator[dict[str, str]]:
        """Machines have no lakelog meanwhile; yields the settings by which a driver sends it along, as an archive."""
        first = [machine.site / "lakelog" / "__init__.py" for machine in self.machines]
        texts = [file.read_text() for file in first]
        for file in first:
            file.write_text("raise ModuleNotFoundError(\"No module named 'lakelog'\", name='lakelog')")
        try:
            yield {"spark.archives": f"{self.packed}#packed", "spark.executorEnv.PYTHONPATH": "packed"}
        finally:
            for file, text in zip(first, texts, strict=True):
                file.write_text(text)

    def kill_worker(self, machine: Machine) -> None:
        """Kills a worker by SIGKILL; its executors end when they notice."""
        if machine.process is not None:
            machine.process.kill()
            machine.process.wait()
            machine.process = None

    def executors(self, machine: Machine) -> list[int]:
        """The executors of a worker, by their process ids."""
        return self._processes_of(machine, b"CoarseGrainedExecutorBackend")

    def _processes_of(self, machine: Machine, word: bytes = b"") -> list[int]:
        """The processes of a machine that are no zombies, by their environment, with a word in their command."""
        found = []
        mark = f"LAKELOG_CACHE_DIR={machine.cache}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            # A zombie has no environment any more.
            with contextlib.suppress(OSError):
                is_one = word in (process / "cmdline").read_bytes()
                if is_one and mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        return found

    def driver_environment(self, folder: Path, s3: S3Settings) -> dict[str, str]:
        """The variables of a driver program with its own address, home, local copies and installation."""
        for part in ("home", "tmp"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        return {
            **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            "HOME": str(folder / "home"),
            "JAVA_HOME": str(java_home(os.environ)),
            "SPARK_HOME": str(find_spark_home()),
            "PYSPARK_PYTHON": sys.executable,
            # Java's stored classes are those of this machine.
            "SPARK_SUBMIT_OPTS": options_with_classes(),
            "TMPDIR": str(folder / "tmp"),
            "SPARK_LOCAL_DIRS": str(folder / "tmp"),
            "LAKELOG_CACHE_DIR": str(folder / "copies"),
            "PYTHONPATH": str(self.driver_site),
            "SPARK_LOCAL_IP": DRIVER_ADDRESS,
            **s3_variables(s3),
        }

    @property
    def conf(self) -> dict[str, str]:
        """Settings of a driver on this small machine."""
        return {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": options_with_classes()}

    def _environment(self, home: Path) -> dict[str, str]:
        return {
            **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            "HOME": str(home),
            "JAVA_HOME": str(java_home(os.environ)),
            "SPARK_HOME": str(find_spark_home()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": options_with_classes(),
        }


def _start_daemon(
    name: str, arguments: list[str], environment: Mapping[str, str], folder: Path, log: Path
) -> subprocess.Popen[bytes]:
    program = find_spark_home() / "bin" / "spark-class"
    with log.open("ab") as output:
        command = [str(program), f"org.apache.spark.deploy.{name}", *arguments]
        return subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )


def _says(log: Path, text: str) -> bool:
    return log.exists() and re.search(text, log.read_text(errors="replace")) is not None


def _until(what: Callable[[], bool], log: Path, process: subprocess.Popen[bytes]) -> None:
    give_up_s = time.monotonic() + _START_WITHIN_S
    while not what():
        is_late = process.poll() is not None or time.monotonic() > give_up_s
        assert not is_late, log.read_text(errors="replace")[-3000:]
        time.sleep(0.05)
