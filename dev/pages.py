"""What the programs have in common that generate pages of the documentation."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def write_or_check(page: Path, render: Callable[[], str], program: str, description: str) -> int:
    """Writes a page, or with `--check` says whether it is current; returns the exit code, 1 where it is not.

    Args:
        page: Its file, mostly in `docs/`.
        render: Makes its text.
        program: Writes it, as people call it.
        description: For `--help`.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when the page is not current")
    check = parser.parse_args().check
    text = render()
    if not check:
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")
        return 0
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{page.parent.name}/{page.name} is not current: run `python {program}` and commit it.\n")
        return 1
    return 0
