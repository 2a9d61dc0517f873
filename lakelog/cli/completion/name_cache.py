"""Names that a metastore gave a moment ago, in a file of the user's cache folder that only the user reads.

Keys of a shell come faster than answers. The file's name is a hash of target and caller, so that no name of one
metastore is shown for another, and no secret stands in the file or its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

KEPT_S: Final = 5.0
"""A table that was made just now is there after so long."""
_MAX_BYTES: Final = 1_000_000


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where the files are: in XDG_CACHE_HOME, or ~/.cache."""
    home = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "lakelog" / "completion"


class NameCache:
    """The names of one metastore, as one caller sees them. An error of the file system is as good as no file.

    Args:
        folder: Where the file is.
        target: Where the metastore listens.
        caller: What identifies the caller; only a hash of it is used.
    """

    def __init__(self, folder: Path, target: str, caller: str) -> None:
        digest = hashlib.blake2b(f"{len(target)}:{target}{caller}".encode(), digest_size=12).hexdigest()
        self.path: Final = folder / f"{digest}.json"

    def get(self, key: str) -> list[str] | None:
        """The names of a key that are young enough; None: none are."""
        found = self._read().get(key)
        return None if found is None else found[1]

    def put(self, key: str, names: list[str]) -> None:
        """Keeps names."""
        entries = {**self._read(), key: (time.time(), names)}
        text = json.dumps(entries)
        if len(text) > _MAX_BYTES:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Another shell may read meanwhile. Such a file has the mode 0600 from its first moment.
            descriptor, path = tempfile.mkstemp(dir=self.path.parent, prefix=".new-")
            try:
                with os.fdopen(descriptor, "w") as file:
                    file.write(text)
                os.replace(path, self.path)
            except OSError:
                os.unlink(path)
                raise

    def _read(self) -> dict[str, tuple[float, list[str]]]:
        """Entries that are young enough."""
        now_s = time.time()
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            return {
                key: (made_s, names)
                for key, (made_s, names) in json.loads(self.path.read_bytes()[: _MAX_BYTES + 1]).items()
                if 0 <= now_s - made_s < KEPT_S and all(isinstance(name, str) for name in names)
            }
        return {}
