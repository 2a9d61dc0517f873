"""W4 of BENCH, the engine by itself."""

from __future__ import annotations

from bench import compaction

TITLE = "Full compaction: 4 M Q1 rows + 10 x 400 k"
PARTS = {"engine": compaction.measure_full}
