"""Where what Spark and its Java say goes: a file beside the service's own log, never the service's terminal."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_LARGEST_BYTES: Final = 16 << 20
"""A file that is larger at a start becomes that of the time before (`.old`); Spark logs warnings only."""


def choose_spark_log(given: str | None, name: str, environment: Mapping[str, str]) -> Path | None:
    """The file for Spark's log, in a folder that is there; None: standard error.

    Args:
        given: What the command line or the environment says; None: nothing.
        name: Of what runs, unique among the services of a user.
        environment: For the user's cache folder.
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
        # A home that cannot be written to is no reason not to run.
        return None
    return file
