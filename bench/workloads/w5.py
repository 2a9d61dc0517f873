"""W5 of BENCH, through the SDK and through Spark."""

from __future__ import annotations

from bench import changelog
from bench.spark import changelog as spark_changelog

TITLE = "Upserts of 20 k and 200 k Q1 rows onto 4 M with their lookup changelog, 80 % updates, warm and cold"
PARTS = {"sdk": changelog.measure_sdk, "spark": spark_changelog.measure_spark}
