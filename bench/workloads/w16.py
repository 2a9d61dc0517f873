"""W16 of BENCH: rows that conditions change."""

from __future__ import annotations

from bench import deletes, merges
from bench.spark import deletes as spark_deletes

TITLE = "Rows by condition: 4 M Q1 rows"
PARTS = {
    "delete": deletes.measure_deletes,
    "delete-spark": spark_deletes.measure_deletes,
    "merge": merges.measure_merges,
}
