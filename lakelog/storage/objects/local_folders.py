"""Lists and deletes below a folder without following symbolic links.

Whoever may write into a table's folder could put a link there, and have a service with more rights list and delete what
is behind it. So each folder on the way is opened relative to the one above it, and never through a link; what is opened
stays the same even if someone puts a link in its place meanwhile. Only the folders above the root may be links.

Reads and new files do follow links: a data file names its own path inside, so what is behind a link is never taken for
another file, and no existing file is overwritten.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from lakelog.errors import PermissionDenied
from lakelog.storage.objects.store import StoredObject

LINK_NOT_FOLLOWED: Final = "LINK_NOT_FOLLOWED"
"""The reason of a `PermissionDenied` about a symbolic link on the way to what is to be listed or deleted."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _refuse(link: str, root: Path) -> PermissionDenied:
    """The error about a link, which is relative to the root; empty: the root itself."""
    where = root / link
    return PermissionDenied(
        f"{where} is a symbolic link. Nothing behind it is listed or deleted, because that may lie outside the table's "
        f"folder {root}. Remove the link, or put a folder in its place.",
        reason=LINK_NOT_FOLLOWED,
        metadata={"path": str(where), "link": link},
    )


@contextlib.contextmanager
def open_folder(root: Path, segments: Sequence[str]) -> Iterator[int]:
    """Opens a folder below the root, and gives its descriptor.

    Raises:
        PermissionDenied: The root or a folder below it is a link.
        OSError: It cannot be opened.
    """
    descriptor = _open(str(root), None, "", root)
    try:
        for depth, segment in enumerate(segments, 1):
            below = _open(segment, descriptor, "/".join(segments[:depth]), root)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open(name: str, above: int | None, relative: str, root: Path) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        if _is_link(name, above):
            raise _refuse(relative, root) from None
        raise


def _is_link(name: str, above: int | None) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    return False


def remove_files(root: Path, folder: str, names: Sequence[str]) -> list[str]:
    """Removes files of one folder, or links in it, and returns which of them were there.

    Args:
        root: The root.
        folder: The folder, relative to it; empty: the root itself.
        names: The names of the files.

    Raises:
        PermissionDenied: There is a link on the way to the folder.
        OSError: A file cannot be removed.
    """
    segments = folder.split("/") if folder else []
    removed = []
    # Below a file there is nothing to remove either.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), open_folder(root, segments) as descriptor:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=descriptor)
                removed.append(name)
    return removed


def remove_if_empty(root: Path, folder: str) -> None:
    """Removes a folder if it is empty; never raises errors of the operating system."""
    segments = folder.split("/") if folder else []
    # Not empty, or gone already: another writer uses or removed it.
    with contextlib.suppress(OSError, PermissionDenied):
        if segments:
            with open_folder(root, segments[:-1]) as above:
                os.rmdir(segments[-1], dir_fd=above)
        else:
            os.rmdir(root)


def remove_empty_folders(root: Path) -> None:
    """Removes the folders without files, the deepest first and the root last; one that gets a file meanwhile remains.

    Raises:
        PermissionDenied: The root is a link.
    """
    with contextlib.suppress(FileNotFoundError), open_folder(root, []) as top:
        for _, folders, _, descriptor in os.fwalk(".", topdown=False, onerror=_raise_unless_missing, dir_fd=top):
            for name in folders:
                # A link is no folder to the operating system.
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=descriptor)
    with contextlib.suppress(OSError):
        os.rmdir(root)


def list_files(root: Path, prefix: str) -> Iterator[StoredObject]:
    """All files below the folder `prefix` (empty: the root), and the links, which are not followed.

    A prefix that is a link itself is the only one that is found.

    Raises:
        PermissionDenied: There is a link on the way to the folder.
        OSError: A folder cannot be read.
    """
    segments = prefix.split("/") if prefix else []
    try:
        with open_folder(root, segments) as top:
            for folder, folders, names, descriptor in os.fwalk(".", onerror=_raise_unless_missing, dir_fd=top):
                above = "/".join([*segments, *folder.split("/")[1:]])
                yield from _find(descriptor, above, names, is_folder=False)
                yield from _find(descriptor, above, folders, is_folder=True)
    except PermissionDenied as error:
        if error.reason != LINK_NOT_FOLLOWED or not prefix or error.metadata["link"] != prefix:
            raise
        with open_folder(root, segments[:-1]) as above_it:
            yield from _find(above_it, "/".join(segments[:-1]), segments[-1:], is_folder=True)
    except FileNotFoundError:
        return


def _find(descriptor: int, folder: str, names: Sequence[str], *, is_folder: bool) -> Iterator[StoredObject]:
    """The files of these names, or, among those that seem to be folders, the links."""
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            is_link = stat.S_ISLNK(status.st_mode)
            if is_link or not is_folder:
                path = f"{folder}/{name}" if folder else name
                yield StoredObject(path, status.st_size, status.st_mtime_ns // 1_000_000, is_link)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
