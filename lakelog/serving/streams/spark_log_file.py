"""Where the output of Spark and its Java goes: to a file beside the service's log, never to its terminal."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_LARGEST_BYTES: Final = 16 << 20
"""At a start, a larger file is renamed to `.old`; Spark logs only warnings."""


def choose_spark_log(given: str | None, name: str, environment: Mapping[str, str]) -> Path | None:
    """The file for Spark's log, in an existing folder; None: standard error.

    Args:
        given: The path from the command line or the environment; None: not given.
        name: What runs; unique among the services of a user.
        environment: Has the user's cache folder.
    """
    if given == "-":
        return None
    if given:
        file = Path(given).absolute()
    else:
        cache = environment.get("XDG_CACHE_HOME") or os.path.join(
            environment.get("HOME") or tempfile.gettempdir(), ".cache"
        )
        file = Path(cache) / "lakelog" / "logs" / f"{name}.spark.log"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > _LARGEST_BYTES:
            file.replace(file.with_suffix(".old"))
        file.open("ab").close()
    except OSError:
        # A service must also run if its user's home is not writable.
        return None
    return file
