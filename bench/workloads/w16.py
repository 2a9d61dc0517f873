"""W16 of BENCH: rows of an append table that conditions change."""

from __future__ import annotations

from bench import deletes

TITLE = "Rows by condition: 4 M Q1 rows"
PARTS = {"delete": deletes.measure_deletes}
