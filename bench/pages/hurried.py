"""A console whose open pages look for changes a hundred times as often: a day of updates in minutes."""

from __future__ import annotations

import sys

from console.__main__ import main
from console.http import live

live.EVERY_S = 0.03  # type: ignore[misc]
live.UNCHANGED_S = 0.1  # type: ignore[misc]
live.PAUSES = 0  # type: ignore[misc]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
