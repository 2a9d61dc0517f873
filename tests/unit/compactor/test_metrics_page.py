"""What docs/compactor.md says of measurements is what the service measures."""

from __future__ import annotations

import re
from pathlib import Path

from compactor.metrics import Metrics

PAGE = Path(__file__).parents[3] / "docs" / "compactor.md"


def test_the_page_names_every_measurement_and_no_other() -> None:
    measured = set()
    for family in Metrics().registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        measured.add(family.name.removeprefix("lakelog_compactor_") + suffix)
    table = PAGE.read_text().partition("| metric |")[2].partition("\n\n")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for cell in first_cells for name in re.findall(r"`([a-z_]+)`", cell)]
    assert sorted(named) == sorted(measured)
