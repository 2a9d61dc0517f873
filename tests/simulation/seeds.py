"""Which histories are simulated."""

from __future__ import annotations

import os

FIRST_SEED = int(os.environ.get("LAKELOG_SIMULATION_FIRST_SEED", "1"))

SEED_COUNT = int(os.environ.get("LAKELOG_SIMULATION_SEEDS", "25"))
