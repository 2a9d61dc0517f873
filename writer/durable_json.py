"""Small files of JSON in a checkpoint: whole or not at all, and on the disk before anybody is told."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

from lakelog.storage.objects.durable import synchronise


def write_draft(folder: Path, data: dict[str, Any]) -> Path:
    """Writes a file without its final name; the folder is made where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{uuid.uuid4().hex}"
    draft.write_text(json.dumps(data, ensure_ascii=True), encoding="ascii")
    synchronise(draft)
    return draft


def write_once(path: Path, data: dict[str, Any]) -> None:
    """Writes a file, unless there is one: of two processes only one makes it, and both see the same."""
    draft = write_draft(path.parent, data)
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
    synchronise(path.parent)


def replace(path: Path, data: dict[str, Any]) -> None:
    """Writes a file in the place of another one."""
    write_draft(path.parent, data).replace(path)
    synchronise(path.parent)
