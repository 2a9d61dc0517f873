"""Starting the Java process of Spark, for a Python process in which gRPC may be at work.

PySpark starts Java by Popen with a `preexec_fn`. That makes CPython fork (instead of vfork), which runs the fork
handlers of every library in the process, and gRPC's crash about one child in ten while a channel is open. Java is
therefore started here: without a `preexec_fn` no handler of anybody runs between fork and exec. PySpark then takes the
running process by the variables that `spark-submit` itself uses for that.

Java starts in seconds. Services begin that first (`begin_java`) and import and check what they need meanwhile, so this
module imports nothing of PySpark before it is needed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from lakelog.client.connection import channels
from lakelog.errors import InternalError
from lakelog.spark.session.java_options import spark_submit_options

PORT_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"
SECRET_VARIABLE: Final = "PYSPARK_GATEWAY_SECRET"

_POLL_INTERVAL_S: Final = 0.02

_IGNORING_SIGNALS: Final = ("/bin/sh", "-c", "trap '' INT TERM; exec \"$@\"", "sh")
"""Ctrl-C in a terminal, and a SIGTERM to a whole process group, are for Python, which ends Java in good order: it ends
when its standard input does. What is ignored stays so across exec."""

running: list[subprocess.Popen[bytes]] = []
"""Java ends when its standard input does, so whoever started it must hold that for as long as this process lives."""


@dataclass(frozen=True)
class JavaProcess:
    """Java that waits for PySpark.

    Args:
        process: The process.
        port: Where it listens, on the loopback address.
        secret: What it wants to hear first.
    """

    process: subprocess.Popen[bytes]
    port: int
    secret: str


class StartingJava:
    """Java that was begun and need not be ready yet. Used from one thread at a time.

    Args:
        conf: Spark's settings, `spark.driver.memory` and others that Java itself needs among them.
        log_file: Where all that Java prints goes, behind what is there; None: where this process prints.
    """

    def __init__(self, conf: Mapping[str, str], log_file: Path | None = None) -> None:
        spark_home = find_spark_home()
        submit = [str(spark_home / "bin" / "spark-submit")]
        for key, value in conf.items():
            submit += ["--conf", f"{key}={value}"]
        submit += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self._log_file = log_file
        self._folder = Path(tempfile.mkdtemp(prefix="lakelog-java-"))
        environment = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": spark_submit_options(os.environ, conf, spark_home),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._answer),
        }
        with contextlib.ExitStack() as stack:
            output: IO[bytes] | None = None if log_file is None else stack.enter_context(log_file.open("ab"))
            self._process = subprocess.Popen(
                [*_IGNORING_SIGNALS, *submit], stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment
            )

    @property
    def _answer(self) -> Path:
        """Java writes it under another name first, so that it is whole once it is there."""
        return self._folder / "connection"

    def wait(self) -> JavaProcess:
        """Blocks until Java listens; it then ends with this process. Call once.

        Raises:
            InternalError: It ended before it was ready.
        """
        try:
            while not self._answer.is_file():
                if self._process.poll() is not None:
                    self._process.communicate()
                    raise InternalError(
                        f"Java for Spark ended with exit code {self._process.returncode} before it was ready. "
                        f"{self._reason()} Look at JAVA_HOME, at spark.driver.memory and at the other settings of the "
                        "session."
                    )
                time.sleep(_POLL_INTERVAL_S)
            connection = self._answer.read_bytes()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        running.append(self._process)
        port, length = struct.unpack_from(">ii", connection)
        return JavaProcess(self._process, port, connection[8 : 8 + length].decode())

    def discard(self) -> None:
        """Ends it, where no session is to be made; does not wait for that."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _reason(self) -> str:
        if self._log_file is None:
            return "Its output says why."
        lines = self._log_file.read_text(errors="replace").splitlines()
        said = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
        return f"Its last line was: {said[:300]} (all of it is in {self._log_file})."


@contextmanager
def java_for_spark(conf: Mapping[str, str], begun: StartingJava | None = None) -> Iterator[None]:
    """Has Java running for a Spark session that is made inside of the block; does nothing where there is one already.

    Not for threads that make sessions at the same time: PySpark is told by variables of the process.

    Args:
        conf: Spark's settings, `spark.driver.memory` and others that Java itself needs among them.
        begun: Java that was begun with these settings before.

    Raises:
        InternalError: Java ended before it was ready; the reason stands in its output.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is not None or PORT_VARIABLE in os.environ:
        if begun is not None:
            begun.discard()
        yield
        return
    java = (begun or StartingJava(conf)).wait()
    os.environ[PORT_VARIABLE] = str(java.port)
    os.environ[SECRET_VARIABLE] = java.secret
    try:
        yield
    finally:
        # Not to be inherited by child processes, whose Spark needs a Java of its own.
        del os.environ[PORT_VARIABLE], os.environ[SECRET_VARIABLE]


def was_forked_beside_channels() -> bool:
    """Whether PySpark itself started the Java of this process, by a fork, when a channel of lakelog had been opened."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or channels.first_opened_s is None:
        return False
    try:
        # Behind the name, which stands in parentheses and may hold anything, the 20th: ticks since the machine began.
        started = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return False
    return int(started) / os.sysconf("SC_CLK_TCK") > channels.first_opened_s


def start_java(conf: Mapping[str, str]) -> JavaProcess:
    """Starts Java with Spark's classes and waits until it listens; it ends with this process.

    Raises:
        InternalError: As of `java_for_spark`.
    """
    return StartingJava(conf).wait()


def find_spark_home() -> Path:
    """Spark's own folder: what `SPARK_HOME` names, else that of PySpark, which is not imported for it.

    Raises:
        ModuleNotFoundError: There is no PySpark.
    """
    named = os.environ.get("SPARK_HOME")
    if named:
        return Path(named)
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return Path(found.origin).parent
