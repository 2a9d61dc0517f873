"""The rule for names of tags: the same for options, requests and statements."""

from __future__ import annotations

import re
from typing import Final

MAX_TAG_NAME: Final = 128

_TAG_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def find_tag_problem(name: str) -> str | None:
    """What is wrong with a tag's name and what to give instead, as a sentence; None: it is valid. Pure.

    Where both are allowed, a number would be read as a snapshot's id, and a comma separates two of them.
    """
    if name.isascii() and name.isdigit():
        return f"A number means a snapshot, so put a letter to it, as in 'v{name[:20]}'."
    if len(name) > MAX_TAG_NAME:
        return f"It has {len(name)} characters; give at most {MAX_TAG_NAME}."
    if not _TAG_NAME.fullmatch(name):
        return (
            "Use letters, digits, '_', '-' and '.' (ASCII), with none of the last two first, as in 'release-2024.05'."
        )
    return None
