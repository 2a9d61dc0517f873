"""The figures of `./run bench SCALE` that the pages on scaling show, from `bench/plots/scale/`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = ROOT / "bench/plots/scale"
REPLICAS: Final = (1, 2, 4)
SERVICES: Final = ("metastore", "writer", "publisher", "compactor", "reader")


@dataclass(frozen=True)
class Figures:
    """What was measured.

    Args:
        values: By workload and name, in the unit of `units`.
        units: By workload and name.
        machine: What it was measured on.
    """

    values: Mapping[tuple[str, str], float]
    units: Mapping[tuple[str, str], str]
    machine: Mapping[str, Any]

    def cost(self, name: str) -> float:
        """A figure of SCALE-costs."""
        return self.values["SCALE-costs", name]

    def point(self, service: str, replicas: int, what: str) -> float:
        """A point of a service's curve."""
        return self.values[f"SCALE-{service}", to_name(service, replicas, what)]

    def unit(self, service: str) -> str:
        """What a service's rate counts."""
        return self.units[f"SCALE-{service}", to_name(service, 1, "rate")].removesuffix("/s")

    def count(self, service: str) -> str:
        """What the CPU of a service is of: `a commit`, `a million rows`."""
        unit = self.unit(service)
        return f"a {unit if unit.startswith('million ') else unit.removesuffix('s')}"


def to_name(service: str, replicas: int, what: str) -> str:
    """A figure's name, as `bench/scaling/meter.py` gives it."""
    return f"{service}, {replicas} replica{'s' * (replicas > 1)}: {what}"


def load_figures(folder: Path = FOLDER) -> Figures:
    """All results in the folder: each is what `./run bench SCALE-... --json` wrote."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    found = {(each["workload"], figure["name"]): figure for each in documents for figure in each["figures"]}
    return Figures(
        {key: figure["ours"] for key, figure in found.items()},
        {key: figure["unit"] for key, figure in found.items()},
        documents[0]["machine"],
    )
