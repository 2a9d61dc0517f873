"""W11 of BENCH."""

from __future__ import annotations

from bench import small_files

TITLE = "Small files: 2,000 files x 1,000 Q1 rows put together"
PARTS = {"merge": small_files.measure_merge, "precommit": small_files.measure_precommit}
