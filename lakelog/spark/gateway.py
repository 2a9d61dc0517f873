"""Starting the Java process of Spark, for a Python process in which gRPC may be at work.

PySpark starts Java by Popen with a `preexec_fn`. That makes CPython fork (instead of vfork), which runs the fork
handlers of every library in the process, and gRPC's crash about one child in ten while a channel is open. Java is
therefore started here: without a `preexec_fn` no handler of anybody runs between fork and exec. PySpark then takes the
running process by the variables that `spark-submit` itself uses for that.
"""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home

from lakelog.errors import InternalError

PORT_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"
SECRET_VARIABLE: Final = "PYSPARK_GATEWAY_SECRET"

_LOOK_EVERY_S: Final = 0.05

_IGNORING_SIGNALS: Final = ("/bin/sh", "-c", "trap '' INT TERM; exec \"$@\"", "sh")
"""Ctrl-C in a terminal, and a SIGTERM to a whole process group, are for Python, which ends Java in good order: it ends
when its standard input does. What is ignored stays so across exec."""

_running: list[subprocess.Popen[bytes]] = []
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


@contextmanager
def java_for_spark(conf: Mapping[str, str]) -> Iterator[None]:
    """Has Java running for a Spark session that is made inside of the block; does nothing where there is one already.

    Not for threads that make sessions at the same time: PySpark is told by variables of the process.

    Args:
        conf: Spark's settings, `spark.driver.memory` and others that Java itself needs among them.

    Raises:
        InternalError: Java ended before it was ready; the reason stands in its output.
    """
    if SparkContext._gateway is not None or PORT_VARIABLE in os.environ:
        yield
        return
    java = start_java(conf)
    os.environ[PORT_VARIABLE] = str(java.port)
    os.environ[SECRET_VARIABLE] = java.secret
    try:
        yield
    finally:
        # Not to be inherited by child processes, whose Spark needs a Java of its own.
        del os.environ[PORT_VARIABLE], os.environ[SECRET_VARIABLE]


def start_java(conf: Mapping[str, str]) -> JavaProcess:
    """Starts Java with Spark's classes and waits until it listens; it ends with this process.

    Raises:
        InternalError: As of `java_for_spark`.
    """
    submit = [str(Path(_find_spark_home()) / "bin" / "spark-submit")]
    for key, value in conf.items():
        submit += ["--conf", f"{key}={value}"]
    submit += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    with tempfile.TemporaryDirectory(prefix="lakelog-java-") as folder:
        # Java writes it under another name first, so that it is whole once it is there.
        answer = Path(folder) / "connection"
        process = subprocess.Popen(
            [*_IGNORING_SIGNALS, *submit],
            stdin=subprocess.PIPE,
            env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer)},
        )
        while not answer.is_file():
            if process.poll() is not None:
                process.communicate()
                raise InternalError(
                    f"Java for Spark ended with exit code {process.returncode} before it was ready. Its output says "
                    "why; look at JAVA_HOME, at spark.driver.memory and at the other settings of the session."
                )
            time.sleep(_LOOK_EVERY_S)
        connection = answer.read_bytes()
    _running.append(process)
    port, length = struct.unpack_from(">ii", connection)
    return JavaProcess(process, port, connection[8 : 8 + length].decode())
