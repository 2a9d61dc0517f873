"""A program with executors on other machines, run by `test_killed_machines`; all have lakelog from the wheel."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakelog
import lakelog.spark
from lakelog.errors import InvalidArgument


def describe_executor(_: int) -> dict[str, str]:
    """What a task finds about its machine."""
    import lakelog as own

    return {
        "folder": os.getcwd(),
        "home": os.environ["HOME"],
        "copies": os.environ["LAKELOG_CACHE_DIR"],
        "lakelog": str(own.__file__),
        "path": os.environ.get("PYTHONPATH", ""),
    }


def make_rows(spark: SparkSession, number: int, count: int) -> DataFrame:
    return spark.range(0, count, numPartitions=4).selectExpr("id k", f"concat('{number}.', id) v")


def refuse(spark: SparkSession, table: str, part: str) -> None:
    """Writes with executors that lack something; the error must say what."""
    said = ""
    try:
        lakelog.spark.write(make_rows(spark, 9, 8), table)
    except InvalidArgument as error:
        said = f"{error.reason}: {error.message}"
    assert said.startswith("EXECUTOR_UNFIT"), said
    assert part in said, said


def main(master: str, table: str, copy: str, count_text: str, sites_text: str, *settings: str) -> None:
    count, sites = int(count_text), [Path(site) for site in sites_text.split("|")]
    conf = dict(setting.split("=", 1) for setting in settings)
    # Each job has new Python processes, which import what is there at that time.
    conf["spark.python.worker.reuse"] = "false"
    spark = lakelog.spark.build_session("program", master, conf, target=os.environ["LAKELOG_TARGET"])
    found = spark.sparkContext.parallelize(range(8), 8).map(describe_executor).collect()
    machines = [str(site.parent) for site in sites]
    for each in found:
        # Nothing of a task is in a folder of the driver program, or of the tests' sources.
        paths = (each["folder"], each["home"], each["copies"], each["lakelog"])
        assert any(all(path.startswith(machine + "/") for path in paths) for machine in machines), each
        assert "driver" not in each["path"], each
    # The machine of the test dies during the first of them.
    for number in range(2):
        lakelog.spark.write(make_rows(spark, number, count), table, writer="w", identifier=number)
    rows: Any = spark.read.format("lakelog").option("table", table).load()
    rows.write.format("lakelog").option("table", copy).mode("append").save()
    try:
        # Spark's own scan needs classes that do not come with it.
        lakelog.spark.read_table(spark, table)
        raise AssertionError("Spark can read S3 by itself")
    except InvalidArgument as error:
        reason = error.reason
    assert reason == "S3A_MISSING", reason
    for site in sites:
        # Without the folder they would find what else this machine has.
        first = site / "lakelog" / "__init__.py"
        first.rename(site / "first.py")
        first.write_text("raise ModuleNotFoundError(\"No module named 'lakelog'\", name='lakelog')")
    refuse(spark, table, "cannot import lakelog")
    for site in sites:
        (site / "first.py").rename(site / "lakelog" / "__init__.py")
        version = site / "lakelog" / "__init__.py"
        version.write_text(version.read_text().replace(lakelog.__version__, "9.8.7"))
    refuse(spark, table, f"has lakelog 9.8.7, and the driver program {lakelog.__version__}")
    for site in sites:
        version = site / "lakelog" / "__init__.py"
        version.write_text(version.read_text().replace("9.8.7", lakelog.__version__))
    sys.stdout.write(f"FOUND {json.dumps(found[0])}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
