"""Which files the paths of a command mean: files, folders with all that is below them, and globs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakelog.cli.input.source_files import STDIN, detect_format
from lakelog.errors import InvalidArgument, NotFound
from lakelog.storage.objects.source_paths import S3, expand_path


@dataclass(frozen=True)
class SourceFile:
    """A file to read.

    Args:
        path: As the user knows it; `-` for the standard input.
        file_format: One of `FORMATS`.
        size_bytes: How large it is; 0 for the standard input.
        modified_ns: When it was written, in nanoseconds since the epoch; 0 for the standard input.
    """

    path: str
    file_format: str
    size_bytes: int = 0
    modified_ns: int = 0

    @property
    def place(self) -> str:
        """Its absolute path, by which it is the same file in each run."""
        return os.path.abspath(self.path)

    @property
    def state(self) -> dict[str, str]:
        """Shows whether it has changed: its size in bytes and its time in nanoseconds, as texts."""
        return {"size": str(self.size_bytes), "modified_ns": str(self.modified_ns)}


def find_sources(paths: Sequence[str], file_format: str | None) -> list[SourceFile]:
    """Looks which files the paths mean.

    Args:
        paths: Files, folders and globs, as of `expand_path`; or the standard input alone.
        file_format: Of all files; None: by the name of each.

    Returns:
        The files in the order of `paths`, those of a folder or glob by their names; each once.

    Raises:
        NotFound: A path means no file.
        InvalidArgument: A file's name shows no format, or the standard input is given beside files.
    """
    if STDIN in paths:
        if len(paths) > 1:
            raise InvalidArgument("The standard input, '-', is read alone; leave the other paths out.")
        return [SourceFile(STDIN, file_format or detect_format(STDIN))]
    found = {os.path.abspath(path): path for given in paths for path in expand_path(given)}
    return [_look_at(path, file_format) for path in found.values()]


def _look_at(path: str, file_format: str | None) -> SourceFile:
    known_format = file_format or detect_format(path)
    if path.startswith(S3):
        raise InvalidArgument(
            f"{path} is no file of this machine. Read it by SQL: INSERT INTO ... SELECT * FROM "
            f"read_{known_format}('{path}').",
            metadata={"path": path},
        )
    try:
        status = Path(path).stat()
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {path}.", reason="FILE_NOT_FOUND", metadata={"path": path}) from error
    return SourceFile(path, known_format, status.st_size, status.st_mtime_ns)
