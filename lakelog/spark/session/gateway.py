"""Starts the Java process of Spark, for a Python process in which gRPC may be active.

PySpark starts Java by Popen with a `preexec_fn`. This makes CPython fork (instead of vfork), which runs the fork
handlers of every library in the process; gRPC's handlers crash about one child in ten while a channel is open.
Therefore this module starts Java: without a `preexec_fn` no handlers run between fork and exec. PySpark then uses the
running process through the variables that `spark-submit` itself uses for that.

Java starts in seconds. Services begin it first (`begin_java`) and import and check what they need meanwhile, so this
module imports nothing of PySpark before it is needed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
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
"""Ctrl-C in a terminal, and a SIGTERM to a whole process group, are for Python, which ends Java in good order: Java
ends when its standard input does. Ignored signals stay ignored across exec."""

_SECRET: Final = re.compile(r"(?i)secret|password|token|access[.]?key")
"""Settings that Spark's own UI hides, by their names."""

running: list[subprocess.Popen[bytes]] = []
"""Java ends when its standard input does, so the process that started it holds it open for as long as it lives."""


@dataclass(frozen=True)
class JavaProcess:
    """A Java process that waits for PySpark.

    Args:
        process: The process.
        port: The port where it listens, on the loopback address.
        secret: The secret that a client must send first.
    """

    process: subprocess.Popen[bytes]
    port: int
    secret: str


class StartingJava:
    """A Java process that was started and need not be ready yet. Used from one thread at a time.

    Args:
        conf: Spark's settings, including `spark.driver.memory` and others that Java itself needs.
        log_file: File to which all of Java's output is appended; None: the output of this process.
    """

    def __init__(self, conf: Mapping[str, str], log_file: Path | None = None) -> None:
        spark_home = find_spark_home()
        submit = [str(spark_home / "bin" / "spark-submit")]
        for key, value in conf.items():
            # Every user of the machine can read arguments. Secrets follow over the socket, when the session is made.
            if not _SECRET.search(key):
                submit += ["--conf", f"{key}={value}"]
        submit += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        self._log_file = log_file
        self._folder = Path(tempfile.mkdtemp(prefix="lakelog-java-"))
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home),
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
        """Java writes it under another name first, so it is complete once it exists."""
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
        """Ends it if no session is to be made; does not wait for that."""
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
    """Provides Java for a Spark session that is made inside the block; does nothing if there is a session already.

    Not for threads that make sessions at the same time: variables of the process inform PySpark.

    Args:
        conf: Spark's settings, including `spark.driver.memory` and others that Java itself needs.
        begun: A Java that was started before with these settings.

    Raises:
        InternalError: Java ended before it was ready; its output has the reason.
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
        # Child processes must not inherit it, because their Spark needs its own Java.
        del os.environ[PORT_VARIABLE], os.environ[SECRET_VARIABLE]


def was_forked_beside_channels() -> bool:
    """Whether PySpark itself started this process's Java, by a fork, after a channel of lakelog was opened."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or channels.first_opened_s is None:
        return False
    try:
        # The 20th field after the name, which is in parentheses and can contain anything: ticks since the machine
        # started.
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


def watch_java(on_end: Callable[[InternalError], None]) -> None:
    """Calls back, from a thread, when the Java that was started last ends. Otherwise its next use would show it.

    A Java that another program started, as spark-submit does, is not watched: this process ends with that.
    """
    if not running:
        return
    process = running[-1]

    def wait() -> None:
        code = process.wait()
        killed = ", killed by a signal, for instance for its memory" if code < 0 else ""
        on_end(InternalError(f"Java of Spark has ended with exit code {code}{killed}. Its log says more."))

    threading.Thread(target=wait, name="java", daemon=True).start()


def find_spark_home() -> Path:
    """Spark's own folder: what `SPARK_HOME` names, else that of PySpark, which is not imported for it.

    Links are followed: Java takes stored classes only for jars that have the paths of those it stored them from.

    Raises:
        ModuleNotFoundError: There is no PySpark.
    """
    named = os.environ.get("SPARK_HOME")
    if named:
        return Path(named).resolve()
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return Path(found.origin).parent.resolve()
