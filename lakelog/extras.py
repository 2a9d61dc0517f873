"""What is told where a package is missing that an extra of lakelog brings."""

from __future__ import annotations

from typing import Final

_OWN: Final = ("lakelog", "metastore", "writer")


def explain_missing(error: ModuleNotFoundError, who: str, extra: str) -> str:
    """Returns one line that names the missing package and the extra to install. Pure.

    Args:
        error: What an import raised.
        who: Needs the package, as a sentence begins.
        extra: Brings it.

    Raises:
        ModuleNotFoundError: The given one, where a module of our own is missing: no installation mends that.
    """
    module = (error.name or "").partition(".")[0]
    if not module or module in _OWN:
        raise error
    return f'{who} needs {module}, which is not installed: pip install "lakelog[{extra}]"'
