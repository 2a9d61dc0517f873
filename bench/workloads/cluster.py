"""CLUSTER of BENCH."""

from __future__ import annotations

from bench import spark_cluster

TITLE = "a standalone cluster of Spark: two workers of one core against one"
PARTS = {
    "pipeline": spark_cluster.measure_pipeline,
    "changelog": spark_cluster.measure_changelog,
    "compaction": spark_cluster.measure_compaction,
}
