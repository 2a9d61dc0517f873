"""What the terminal and the environment say about colours, progress and pagers."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from typing import IO, Final

_NO_PAGER: Final = frozenset({"", "cat"})


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person looks at the stream. FORCE_COLOR changes colours only, so it has no part in this."""
    try:
        return stream.isatty()
    except ValueError:
        # It is closed.
        return False


def is_dumb(environment: Mapping[str, str]) -> bool:
    """Whether the terminal knows nothing but lines of text. Pure."""
    return environment.get("TERM", "").lower() in ("dumb", "unknown")


def wants_colour(environment: Mapping[str, str], *, on_terminal: bool) -> bool:
    """Whether output is coloured: NO_COLOR wins over FORCE_COLOR, and that over what the output is. Pure."""
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or (on_terminal and not is_dumb(environment))


def wants_progress(environment: Mapping[str, str]) -> bool:
    """Whether a line that is renewed makes sense here, if the output is a terminal: not in CI. Pure."""
    return not is_dumb(environment) and not environment.get("CI")


def find_pager(environment: Mapping[str, str]) -> list[str] | None:
    """The command that shows long output: LAKELOG_PAGER, else PAGER, else less if it is there; None: none."""
    if is_dumb(environment):
        return None
    named = next((environment[name] for name in ("LAKELOG_PAGER", "PAGER") if name in environment), None)
    if named is None:
        return ["less"] if shutil.which("less") else None
    if named.strip() in _NO_PAGER:
        return None
    try:
        return shlex.split(named)
    except ValueError:
        return None


def pager_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a pager runs with. Without a wish of the user less ends where all fits, shows colours, and cuts no line."""
    return {"LESS": "FRX", **environment}
