"""The first commands and lines of README and quick start, to the letter, on a real stack."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import lakelog
from lakelog.cli.up.up import FIRST_COMMANDS
from lakelog.testing import EmbeddedStack

_ROOT = Path(__file__).parents[3]


def take_block(page: str, before: str, language: str = "") -> str:
    """The first block of code behind a line of a page."""
    text = (_ROOT / page).read_text()
    found = re.search(rf"^{re.escape(before)}.*?^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{page} has no block behind {before!r}"
    return found[1]


def run_python(code: str, stack: EmbeddedStack) -> str:
    """What a program prints; it connects to the stack instead of the usual address."""
    assert code.count('"localhost:7450"') == 1
    code = code.replace("localhost:7450", stack.target)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ten_lines_of_sdk(stack: EmbeddedStack) -> None:
    printed = run_python(take_block("README.md", "## Ten lines of SDK", "python"), stack)
    assert re.match(r" +id item price\n0 +1 +tea +3\.50 2\n", printed)
    # All rows of both snapshots, though they lie in two buckets.
    assert "'item': 'tea', 'price': Decimal('3.50'), '_row_kind': '+I'" in printed
    assert "'item': 'cup', 'price': Decimal('8.00'), '_row_kind': '+I'" in printed
    assert "'item': 'cup', 'price': Decimal('8.00'), '_row_kind': '-D'" in printed
    assert [line.split(" ", 1)[0] for line in printed.splitlines()[2:]] == ["1", "2"]


def run_command(command: str, stack: EmbeddedStack) -> str:
    """What a command line prints."""
    words = shlex.split(command)
    assert words[0] == "lakelog"
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=_ROOT,
        env={**os.environ, "LAKELOG_TARGET": stack.target},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_ten_lines_of_sdk_after_what_up_says_to_try(stack: EmbeddedStack) -> None:
    """A newcomer does both, in this order."""
    with lakelog.connect(stack.target) as catalog:
        catalog.drop_database("shop", if_exists=True, cascade=True)
    printed = [run_command(f"lakelog {command}", stack) for command in FIRST_COMMANDS]
    assert "cup" in printed[-1]
    printed_then = run_python(take_block("README.md", "## Ten lines of SDK", "python"), stack)
    assert re.match(r" +id item price\n0 +1 +tea +3\.50 2\n", printed_then)
    with lakelog.connect(stack.target) as catalog:
        catalog.drop_database("shop", cascade=True)


def test_quick_start(stack: EmbeddedStack) -> None:
    commands = take_block("docs/quickstart.md", "In another terminal").splitlines()
    assert len(commands) == 5
    reported = [run_command(command, stack) for command in commands]
    assert "tea" in reported[3]
    assert "cup" in reported[3]
    printed = run_python(take_block("docs/quickstart.md", "From Python:", "python"), stack)
    assert printed.count("tea") == 2
    assert printed.count("cup") == 1
