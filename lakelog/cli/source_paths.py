"""Which files the paths of a command mean: files, folders with all that is below them, and globs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakelog.cli.source_files import STDIN, detect_format
from lakelog.errors import InvalidArgument, NotFound

_HIDDEN: Final = (".", "_")
"""What the names of files begin with that programs keep beside the data, as `_SUCCESS`."""


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
        """What tells whether it has changed: its size in bytes and its time in nanoseconds, as texts."""
        return {"size": str(self.size_bytes), "modified_ns": str(self.modified_ns)}


def find_sources(paths: Sequence[str], file_format: str | None) -> list[SourceFile]:
    """Looks which files the paths mean.

    Args:
        paths: Of files, of folders, which stand for all files below them, and globs, in which `**` stands for any
            folders. In folders and globs names that begin with `.` or `_` are passed over.
        file_format: Of all files; None: by the name of each.

    Returns:
        The files in the order of `paths`, those of a folder or glob by their names; each once.

    Raises:
        NotFound: A path means no file.
        InvalidArgument: A file's name tells no format, or the standard input is given beside files.
    """
    if STDIN in paths:
        if len(paths) > 1:
            raise InvalidArgument("The standard input, '-', is read alone; leave the other paths out.")
        return [SourceFile(STDIN, file_format or detect_format(STDIN))]
    found = {os.path.abspath(path): path for given in paths for path in _expand(given)}
    return [_look_at(path, file_format) for path in found.values()]


def _expand(given: str) -> Iterator[str]:
    if os.path.isdir(given):
        yield from _require(given, _walk(given), "The folder {} holds no files.")
    elif os.path.exists(given) or not glob.has_magic(given):
        yield given
    else:
        matches = sorted(match for match in glob.glob(given, recursive=True) if not _is_hidden(match))
        files = [path for match in matches for path in ([match] if os.path.isfile(match) else _walk(match))]
        yield from _require(given, files, "No file matches {}.")


def _walk(folder: str) -> list[str]:
    files: list[str] = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        files += [os.path.join(root, name) for name in names if not _is_hidden(name)]
    return sorted(files)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(_HIDDEN)


def _require(given: str, files: Sequence[str], message: str) -> Sequence[str]:
    if not files:
        raise NotFound(
            f"{message.format(given)} Names that begin with {' or '.join(_HIDDEN)} are passed over.",
            reason="FILE_NOT_FOUND",
            metadata={"path": given},
        )
    return files


def _look_at(path: str, file_format: str | None) -> SourceFile:
    if path.startswith("s3://"):
        raise InvalidArgument(
            f"{path} is no file of this machine. Read it by SQL: INSERT INTO ... SELECT * FROM read_parquet('{path}').",
            metadata={"path": path},
        )
    known_format = file_format or detect_format(path)
    try:
        status = Path(path).stat()
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {path}.", reason="FILE_NOT_FOUND", metadata={"path": path}) from error
    return SourceFile(path, known_format, status.st_size, status.st_mtime_ns)
