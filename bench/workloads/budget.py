"""BUDGET of BENCH."""

from __future__ import annotations

from bench.budget.compactor import measure_compactor
from bench.budget.measuring import measure_metastore

TITLE = "what services use under the worst requests, against their budget"

PARTS = {"metastore": measure_metastore, "compactor": measure_compactor}
