"""Splits a script or typed lines into SQL statements at their semicolons. Pure."""

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
    """Splits at semicolons, except in texts, quoted names and comments.

    Returns:
        The statements that end with a semicolon, without it and without empty ones; and the text after the last
        semicolon, empty if that is only space and comments.
    """
    statements: list[str] = []
    begin, says_something = 0, False
    for piece in _PIECE.finditer(text):
        if piece.lastgroup == "end":
            if says_something:
                statements.append(text[begin : piece.start()].strip())
            begin, says_something = piece.end(), False
        elif piece.lastgroup == "open":
            # A text, name or comment that is not closed contains all the rest.
            return statements, text[begin:]
        elif piece.lastgroup not in ("comment", "space"):
            says_something = True
    return statements, text[begin:].strip() if says_something else ""
