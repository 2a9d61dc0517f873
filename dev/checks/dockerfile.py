"""The Dockerfile keeps hadolint's rules."""

from __future__ import annotations

import sys
from pathlib import Path

from dev.programs import problems_of

TITLE = "hadolint finds nothing in the Dockerfile"


def find_problems(root: Path) -> list[str]:
    """What hadolint says, with line and rule."""
    hadolint = Path(sys.executable).with_name("hadolint")
    return problems_of([str(hadolint), "--no-color", "Dockerfile"], root)
