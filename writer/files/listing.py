"""Which files a source has now, and which of them come next."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakelog.errors import InvalidArgument, NotFound, Unavailable

from ..pipeline.spec import FileSource, Order

_UNFINISHED: Final = (".tmp", ".part", "._COPYING_")


@dataclass(frozen=True)
class FoundFile:
    """A file of a source.

    Args:
        path: Relative to the source's folder, with `/`.
        size_bytes: Its size.
        modified_us: When it was last written, in microseconds since the epoch.
    """

    path: str
    size_bytes: int
    modified_us: int


def list_files(source: FileSource) -> list[FoundFile]:
    """The files of a source in the order in which batches take them.

    Files and folders whose names begin with `.` or `_`, and files that end in `.tmp`, `.part` or `._COPYING_`, are
    ignored as unfinished. Blocks.

    Raises:
        NotFound: The folder does not exist.
        InvalidArgument: The name of a file is not UTF-8.
        Unavailable: The folder cannot be read.
    """
    try:
        found = list(_walk(source, source.path, ""))
    except FileNotFoundError as error:
        raise NotFound(
            f"The source's folder {source.path} does not exist: make it, or correct source.path.",
            reason="SOURCE_NOT_FOUND",
            metadata={"path": str(source.path)},
        ) from error
    except OSError as error:
        raise Unavailable(
            f"The source's folder {source.path} cannot be read: {error.strerror or error}.",
            reason="SOURCE_UNREADABLE",
            metadata={"path": str(source.path)},
        ) from error
    if source.order is Order.MODIFIED:
        return sorted(found, key=lambda file: (file.modified_us, file.path))
    return sorted(found, key=lambda file: file.path)


def find_changed(found: list[FoundFile], taken: Mapping[str, tuple[int, int]]) -> list[str]:
    """The files that an earlier batch read and that have changed since: their present content is not read. Pure."""
    return [file.path for file in found if taken.get(file.path, file_state(file)) != file_state(file)]


def file_state(file: FoundFile) -> tuple[int, int]:
    """The state by which a change of a file is noticed. Pure."""
    return file.size_bytes, file.modified_us


def _walk(source: FileSource, folder: Path, prefix: str) -> Iterator[FoundFile]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if name.startswith((".", "_")):
                continue
            try:
                if entry.is_dir():
                    if source.recursive:
                        yield from _walk(source, Path(entry.path), f"{prefix}{name}/")
                    continue
                if name.endswith(_UNFINISHED) or not fnmatch.fnmatchcase(name, source.pattern):
                    continue
                status = entry.stat()
            except FileNotFoundError:
                # Gone between the listing and the look-up: treated as never there.
                continue
            if not entry.is_file():
                continue
            if not _is_unicode(prefix + name):
                raise InvalidArgument(
                    f"The source's folder holds a file whose name is not UTF-8: {os.fsencode(entry.path)!r}. Rename "
                    "it, or leave such names out by source.pattern.",
                    reason="SOURCE_NAME",
                )
            yield FoundFile(prefix + name, status.st_size, status.st_mtime_ns // 1000)


def _is_unicode(name: str) -> bool:
    # Python keeps the invalid bytes of a name as surrogates, which cannot be encoded.
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
