"""`python -m dev.rename`: gives the names of `dev/words.toml` to this checkout, wherever an old one stands alone."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from dev.programs import tracked_files

ROOT = Path(__file__).resolve().parents[1]
MAP = Path("dev/words.toml")


def rename(root: Path) -> list[Path]:
    """Renames in all files of text but the map; returns those that changed. Idempotent."""
    names: dict[str, str] = tomllib.loads((root / MAP).read_text())["names"]
    old_name = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
    changed = []
    for path in tracked_files(root):
        try:
            before = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            # Not text.
            continue
        after = before if path == MAP else old_name.sub(lambda found: names[found[0]], before)
        if after != before:
            (root / path).write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in rename(ROOT))
