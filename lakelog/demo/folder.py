"""The demo's own folder: made anew by each run, and never anything removed that a demo did not make."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from lakelog.errors import AlreadyExists

_MARK: Final = ".lakelog-demo"


def make_fresh_folder(folder: Path) -> Path:
    """Removes what an earlier demo left in the folder and makes it anew.

    Raises:
        AlreadyExists: The folder holds something that is not a demo's.
    """
    if folder.exists() and any(folder.iterdir()):
        if not (folder / _MARK).exists():
            raise AlreadyExists(
                f"The folder {folder} is not empty and was not made by a demo. Name another with --data, or remove it."
            )
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).write_text("Made by `lakelog demo`, and removed by the next one.\n", encoding="utf-8")
    return folder
