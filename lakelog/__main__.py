"""`python -m lakelog`: the `lakelog` command, for when its script is not on the path."""

from __future__ import annotations

from lakelog.cli.main import main

if __name__ == "__main__":
    main()
