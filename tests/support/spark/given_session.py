"""A session that is there already, for services that would begin one."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class GivenSession:
    """See `lakelog.spark.session.session.PendingSession`."""

    spark: SparkSession

    def wait(self) -> SparkSession:
        return self.spark
