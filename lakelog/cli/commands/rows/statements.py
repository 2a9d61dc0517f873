"""Where SQL statements end: a script or typed lines apart at their semicolons. Pure."""

from __future__ import annotations

import re
from typing import Final

_PIECE: Final = re.compile(
    r"""(?P<end>;)
    |(?P<text>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"|`(?:[^`]|``)*`)
    |(?P<comment>--[^\n]*|/\*.*?\*/)
    |(?P<open>['"`]|/\*)
    |(?P<space>\s+)
    |(?P<other>[^;'"`/\s-]+|[/-])""",
    re.VERBOSE | re.DOTALL,
)


def split_statements(text: str) -> tuple[list[str], str]:
    """Splits at semicolons outside of texts, quoted names and comments.

    Args:
        text: Any number of statements.

    Returns:
        The statements that end with a semicolon, without it and without empty ones; and what stands behind the last
        semicolon, empty where that is nothing but space and comments.
    """
    statements: list[str] = []
    begin, says_something = 0, False
    for piece in _PIECE.finditer(text):
        if piece.lastgroup == "end":
            if says_something:
                statements.append(text[begin : piece.start()].strip())
            begin, says_something = piece.end(), False
        elif piece.lastgroup == "open":
            # A text, name or comment that is not closed takes in all the rest.
            return statements, text[begin:]
        elif piece.lastgroup not in ("comment", "space"):
            says_something = True
    return statements, text[begin:].strip() if says_something else ""
