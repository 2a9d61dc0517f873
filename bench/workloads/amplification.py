"""Write and read amplification, which BENCH has no number for."""

from __future__ import annotations

from bench.amplification import measure_amplification

TITLE = "write and read amplification over 1,000 commits that are compacted by themselves"
run = measure_amplification
