"""BUDGET of BENCH."""

from __future__ import annotations

from bench.budget.compactor import measure_compactor
from bench.budget.measuring import TOGETHER, measure_metastore

TITLE = "what services use under the worst requests, against their budget"

PARTS = {
    "metastore": measure_metastore,
    "together": lambda bench: measure_metastore(bench, TOGETHER),
    "compactor": measure_compactor,
}
