"""W1 of BENCH, through the SDK and through Spark."""

from __future__ import annotations

from bench import sdk
from bench.spark import append, append_phases

TITLE = "Bulk append: 4 M Q1 rows, one commit"
PARTS = {"sdk": sdk.measure_append, "spark": append.measure_append, "phases": append_phases.measure_phases}
