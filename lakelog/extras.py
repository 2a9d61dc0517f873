"""The message for a missing package that belongs to an extra of lakelog."""

from __future__ import annotations

from typing import Final

_OWN: Final = ("lakelog", "metastore", "writer")


def explain_missing(error: ModuleNotFoundError, who: str, extra: str) -> str:
    """Returns one line that names the missing package and the extra to install. Pure.

    Args:
        error: The error of an import.
        who: What needs the package, as the beginning of a sentence.
        extra: The extra that contains it.

    Raises:
        ModuleNotFoundError: The given error, if a module of lakelog itself is missing: no installation helps.
    """
    module = (error.name or "").partition(".")[0]
    if not module or module in _OWN:
        raise error
    return f'{who} needs {module}, which is not installed: pip install "lakelog[{extra}]"'
