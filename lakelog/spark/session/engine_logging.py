"""What Spark's engine logs of streaming queries that are stopped on purpose."""

from __future__ import annotations

from typing import Any, Final

_ENGINES: Final = (
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
)
"""Logs the error that a query ends with; the one or the other by Spark's version."""

_SCHEDULER: Final = "org.apache.spark.scheduler.DAGScheduler"
"""Warns of each query that is stopped while it has no jobs."""


def hush_engine() -> None:
    """Has Spark's engine say nothing of queries that end, for the rest of the process. Blocks on Java.

    Whoever calls it stops the process, and tells of errors that do not come from that.
    """
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    if jvm is None:
        return
    log4j = jvm.org.apache.logging.log4j
    for name in _ENGINES:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    log4j.core.config.Configurator.setLevel(_SCHEDULER, log4j.Level.ERROR)
