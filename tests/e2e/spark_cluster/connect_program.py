"""A client of Spark Connect, run by `test_killed_machines`: everything else is on the server and its machines."""

from __future__ import annotations

import os
import sys

# The packages that only clients need, if they are installed elsewhere.
sys.path.append(os.environ["PACKAGES"])

from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.errors import InvalidArgument


def main(server: str, table: str, copy: str, count: str) -> None:
    spark = SparkSession.builder.remote(server).getOrCreate()
    lakelog.spark.install(spark, os.environ["LAKELOG_TARGET"])
    rows = spark.range(0, int(count), numPartitions=4).selectExpr("id k", "concat('0.', id) v")
    rows.write.format("lakelog").option("table", table).mode("append").save()
    read = spark.read.format("lakelog").option("table", table).load()
    assert read.count() == int(count)
    assert lakelog.spark.changes(spark, table, 0).count() == int(count)
    stream = spark.readStream.format("lakelog").option("table", table).load()
    writer = stream.writeStream.format("lakelog").option("table", copy)
    query = writer.option("checkpointLocation", os.path.abspath("state")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert query.exception() is None, query.exception()
    refused = ""
    try:
        lakelog.spark.read_table(spark, table)
    except InvalidArgument as error:
        refused = error.reason
    assert refused == "NOT_IN_SPARK_CONNECT", refused


if __name__ == "__main__":
    main(*sys.argv[1:])
