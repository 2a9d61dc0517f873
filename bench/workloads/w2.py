"""W2 of BENCH, through the SDK and through Spark."""

from __future__ import annotations

from bench import sdk
from bench.spark import upsert

TITLE = "Upserts of 20 k and 200 k Q1 rows onto 4 M"
PARTS = {"sdk": sdk.measure_upsert, "spark": upsert.measure_upsert}
