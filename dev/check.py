"""`python -m dev.check [NAMES] [--list]`: runs every check, or those named, and ends with a table of what failed."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import dev.checks

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Result:
    """What one check found."""

    name: str
    title: str
    problems: list[str]
    took_s: float


def check_names() -> list[str]:
    """All checks, in the order of their names."""
    return sorted(module.name for module in pkgutil.iter_modules(dev.checks.__path__))


def run_check(name: str, root: Path) -> Result:
    """Runs one check; a check that breaks has failed."""
    began = time.monotonic()
    title = "the check itself works"
    try:
        module = importlib.import_module(f"dev.checks.{name}")
        title = module.TITLE
        problems = list(module.find_problems(root))
    except Exception:
        problems = traceback.format_exc().splitlines()
    return Result(name, title, problems, time.monotonic() - began)


def main(arguments: list[str] | None = None) -> int:
    """0: all held; 1: something did not; 2: no such check."""
    parser = argparse.ArgumentParser(prog="./run check", description="Run the checks of this repository.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these checks")
    parser.add_argument("--list", action="store_true", help="show the checks and run none")
    chosen = parser.parse_args(arguments)
    known = check_names()
    unknown = [name for name in chosen.names if name not in known]
    if unknown:
        sys.stderr.write(f"There is no check {unknown[0]!r}; there are: {', '.join(known)}\n")
        return 2
    if chosen.list:
        for name in known:
            print(f"{name:16} {importlib.import_module(f'dev.checks.{name}').TITLE}")
        return 0
    results = []
    for name in chosen.names or known:
        result = run_check(name, ROOT)
        results.append(result)
        print(f"{'FAILED' if result.problems else 'ok':6} {name:16} {result.took_s:5.1f} s", flush=True)
        for problem in result.problems:
            print(f"       {problem}")
    failed = [result for result in results if result.problems]
    print()
    for result in failed:
        print(f"FAILED {result.name:16} not so: {result.title}")
    print(f"{len(results) - len(failed)} of {len(results)} checks passed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
