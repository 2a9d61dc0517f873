"""The demo's own folder: each run makes it again, and removes only what an earlier demo made."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from lakelog.errors import AlreadyExists

_MARK: Final = ".lakelog-demo"


def make_fresh_folder(folder: Path) -> Path:
    """Makes the folder again, without the files of an earlier demo.

    Raises:
        AlreadyExists: The folder holds files that no demo made.
    """
    if folder.exists() and any(folder.iterdir()):
        if not (folder / _MARK).exists():
            raise AlreadyExists(
                f"The folder {folder} is not empty and was not made by a demo. Name another with --data, or remove it."
            )
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / _MARK).write_text("Made by `lakelog demo`, and removed by the next one.\n", encoding="utf-8")
    return folder
