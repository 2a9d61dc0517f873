"""Log messages of Spark's engine about streaming queries that are stopped on purpose."""

from __future__ import annotations

from typing import Any, Final

_ENGINES: Final = (
    "org.apache.spark.sql.execution.streaming.MicroBatchExecution",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
)
"""Log the error that ends a query; which one depends on Spark's version."""

_SCHEDULER: Final = "org.apache.spark.scheduler.DAGScheduler"
"""Warns about each query that is stopped while it has no jobs."""


def hush_engine() -> None:
    """Silences Spark's engine about queries that end, for the rest of the process. Blocks on Java.

    The caller stops the process, and reports errors that have another cause.
    """
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    if jvm is None:
        return
    log4j = jvm.org.apache.logging.log4j
    for name in _ENGINES:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    log4j.core.config.Configurator.setLevel(_SCHEDULER, log4j.Level.ERROR)
