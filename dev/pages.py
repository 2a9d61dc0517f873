"""What the programs have in common that generate pages of the documentation."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def write_or_check(page: Path, render: Callable[[], str], program: str, description: str) -> int:
    """Writes a page, or with `--check` says whether it is current; returns the exit code, 1 where it is not.

    Args:
        page: Its file, mostly in `docs/`.
        render: Makes its text.
        program: Writes it, as people call it.
        description: For `--help`.
    """
    return write_or_check_all({page: render}, program, description)


def write_or_check_all(pages: Mapping[Path, Callable[[], str]], program: str, description: str) -> int:
    """As `write_or_check`, for several files: each with what makes its text."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when the page is not current")
    check = parser.parse_args().check
    stale = False
    for page, render in pages.items():
        text = render()
        if not check:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            where = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
            sys.stderr.write(f"{where} is not current: run `python {program}` and commit it.\n")
            stale = True
    return 1 if stale else 0
