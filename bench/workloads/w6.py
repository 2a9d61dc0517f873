"""W6 of BENCH, the engine by itself."""

from __future__ import annotations

from bench import full_changelog

TITLE = "Full-compaction changelog: W4 and what changed, with and without row-deduplicate"
PARTS = {"engine": full_changelog.measure_changelog}
