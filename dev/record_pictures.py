"""Records what the pictures of the documentation show: `dev/pictures/*.json`, from a real table in this process.

Usage: `python -m dev.record_pictures`, then `python -m dev.pictures_page`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from dev.pictures_page import DATA
from dev.working_day import play_orders, working_day
from lakelog.pictures.amplification import load_amplification
from lakelog.pictures.levels import load_levels
from lakelog.pictures.path import load_path
from lakelog.pictures.timeline import load_timeline


def main() -> int:
    """Makes the table, and writes what four pictures show of it."""
    with working_day() as day:
        table = play_orders(day)
        DATA.mkdir(exist_ok=True)
        for load in (load_amplification, load_levels, load_path, load_timeline):
            _record(load.__name__.removeprefix("load_"), load(table))
    return 0


def _record(name: str, data: Any) -> None:
    text = json.dumps(dataclasses.asdict(data), indent=1, ensure_ascii=False)
    (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
