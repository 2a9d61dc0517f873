"""Small JSON files in a checkpoint: complete or absent, and on the disk before anything depends on them."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

from lakelog.storage.objects.durable import synchronise


def write_draft(folder: Path, data: dict[str, Any], *more: dict[str, Any], head: str = "") -> Path:
    """Writes a file without its final name, each object in a line of its own; makes the folder if necessary.

    Args:
        folder: Where the file will be.
        data: The first object.
        more: Further objects.
        head: A text before them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{uuid.uuid4().hex}"
    lines = [json.dumps(each, ensure_ascii=True) for each in (data, *more)]
    draft.write_text(head + "\n".join(lines), encoding="ascii")
    synchronise(draft)
    return draft


def write_once(path: Path, data: dict[str, Any], *more: dict[str, Any], head: str = "") -> None:
    """Writes a file, unless it exists: of two processes only one makes it, and both see the same content.

    Arguments as of `write_draft`.
    """
    draft = write_draft(path.parent, data, *more, head=head)
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
    synchronise(path.parent)


def replace(path: Path, data: dict[str, Any]) -> None:
    """Replaces a file."""
    write_draft(path.parent, data).replace(path)
    synchronise(path.parent)
