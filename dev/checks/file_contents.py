"""What no tracked file may hold: hosts of registries, paths of one machine, missing pages, work without an owner."""

from __future__ import annotations

import re
from pathlib import Path

from dev.programs import tracked_files

TITLE = "no file names a registry's host, a path of one machine, a missing page, or work without a reason"

_TO_DO = "TO" + "DO"
_FIX_ME = "FIX" + "ME"

PATTERNS = {
    "a package registry's host": re.compile(
        r"(?i)\b(?:pypi|pythonhosted|npmjs|crates|maven|apache\.repo)\.(?:org|com|io)\b|\bproxy\.golang\.|\bdeb\.debian\."
        r"|--(?:extra-)?index-url|://[^\s/]+/simple\b(?!-)"
    ),
    "a path of one machine": re.compile(r"(?<![\w./<])/(?:root|work|Users)/\w|(?<![\w./<])/home/\w"),
    "a page that is not in the repository": re.compile(r"\b(?:SEMANTICS|RELIABILITY|DESIGN|HOUSE|STYLE|BENCH)\.md\b"),
    "something to be done without a reason": re.compile(rf"\b(?:{_TO_DO}|{_FIX_ME}|XXX)\b(?!\(\w)"),
}

_OWN_PATTERNS = Path("dev/checks/file_contents.py")


def find_problems(root: Path) -> list[str]:
    """Places that match, with file and line."""
    problems = []
    for path in tracked_files(root):
        if path == _OWN_PATTERNS:
            continue
        try:
            lines = (root / path).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            # Not text.
            continue
        for what, pattern in PATTERNS.items():
            problems += [f"{path}:{number}: {what}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    return problems
