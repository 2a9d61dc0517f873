"""`lakelog sql`: statements from the command line, a file, the standard input or a person."""

from __future__ import annotations

from typing import Final

_PROMPT: Final = "lakelog> "
_CONTINUED: Final = "      -> "
_LEAVE: Final = frozenset({"exit", "quit", "\\q"})
_HISTORY_LENGTH: Final = 1000
