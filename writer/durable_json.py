"""Small JSON files in a checkpoint: complete or absent, and on the disk before anything depends on them."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

from lakelog.storage.objects.durable import synchronise


def write_draft(folder: Path, data: dict[str, Any]) -> Path:
    """Writes a file without its final name; makes the folder if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{uuid.uuid4().hex}"
    draft.write_text(json.dumps(data, ensure_ascii=True), encoding="ascii")
    synchronise(draft)
    return draft


def write_once(path: Path, data: dict[str, Any]) -> None:
    """Writes a file, unless it exists: of two processes only one makes it, and both see the same content."""
    draft = write_draft(path.parent, data)
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
    synchronise(path.parent)


def replace(path: Path, data: dict[str, Any]) -> None:
    """Replaces a file."""
    write_draft(path.parent, data).replace(path)
    synchronise(path.parent)
