"""W15 of BENCH."""

from __future__ import annotations

from bench import together

TITLE = "writer, compactor and reader at once, 120 s"
run = together.measure_together
