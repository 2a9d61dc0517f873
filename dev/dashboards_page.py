"""Writes the dashboards for Grafana from `dev/dashboard_panels.py`.

Usage: `python dev/dashboards_page.py` writes them, `--check` fails when one is not current.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "k8s" / "components" / "monitoring"
sys.path.insert(0, str(ROOT))

from dev.dashboard_panels import OPERATORS, TABLES  # noqa: E402
from dev.dashboards import Dashboard, to_json  # noqa: E402
from dev.pages import write_or_check  # noqa: E402


def render(dashboard: Dashboard) -> str:
    """The text of a dashboard's file. Pure."""
    return json.dumps(to_json(dashboard), indent=1) + "\n"


if __name__ == "__main__":
    codes = [
        write_or_check(FOLDER / f"{each.uid}.json", partial(render, each), "dev/dashboards_page.py", __doc__ or "")
        for each in (OPERATORS, TABLES)
    ]
    sys.exit(max(codes))
