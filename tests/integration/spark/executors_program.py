"""A program with executors in processes of their own, run by `test_executors`; prints what it found as JSON."""

from __future__ import annotations

import json
import os
import sys

import pyarrow as pa
from pyspark import TaskContext

import lakelog
import lakelog.spark
from lakelog.spark.batch import deletion_vectors


def main(target: str, folder: str) -> None:
    conf = {
        "spark.sql.warehouse.dir": folder,
        "spark.log.level": "ERROR",
        # As for all Java of the tests (tests/conftest.py), whose variable reaches drivers only.
        "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
    }
    spark = lakelog.spark.build_session("executors", "local-cluster[2,1,1024]", conf)
    lakelog.spark.install(spark, target)
    catalog = lakelog.connect(target)
    catalog.create_database("cluster", if_not_exists=True)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int32())])
    table = catalog.create_table("cluster.t", schema=schema, primary_key=["k"], options={"bucket": "4"})
    lakelog.spark.write(spark.range(0, 10_000, numPartitions=4).selectExpr("id k", "0 v"), "cluster.t")
    lakelog.spark.write(spark.range(0, 10_000, 2, numPartitions=4).selectExpr("id k", "1 v"), "cluster.t")
    rows = spark.range(0, 100, numPartitions=2).selectExpr("id k", "2 v")
    rows.write.format("lakelog").option("table", "cluster.t").mode("append").save()
    # So few keys are not worth a job, which is what is to be seen here.
    deletion_vectors.MAX_DRIVER_KEY_BYTES = 0  # type: ignore[misc]
    merged = lakelog.spark.read_table(spark, "cluster.t").groupBy("v").count()
    source = spark.read.format("lakelog").option("table", "cluster.t").load().groupBy("v").count()
    where = spark.sparkContext.parallelize(range(4), 4).map(lambda _: TaskContext.get() and os.getpid()).collect()
    found = {
        "read_table": {row["v"]: row["count"] for row in merged.collect()},
        "format": {row["v"]: row["count"] for row in source.collect()},
        "sdk": table.scan().count(),
        "workers": len(set(where) - {os.getpid()}),
    }
    sys.stdout.write(f"FOUND {json.dumps(found)}\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
