"""Lists and deletes below a folder without following symbolic links.

A user with access to a table's folder could put a link there, and make a service with more rights list and delete its
target. So each folder on the way is opened relative to the folder above it, and never through a link. An open folder
stays the same even if a link replaces it meanwhile. Only the folders above the root can be links.

Reads and new files do follow links: a data file contains its own path, so the target of a link is never taken for
another file, and no existing file is overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from lakelog.errors import PermissionDenied
from lakelog.storage.objects.store import StoredObject

LINK_NOT_FOLLOWED: Final = "LINK_NOT_FOLLOWED"
"""The reason of a `PermissionDenied` about a symbolic link on the way to files that are to be listed or deleted."""

PassOver: TypeAlias = Callable[[str, OSError], None]
"""Gets a folder that cannot be read, relative to the root, and the reason."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _refuse(link: str, root: Path) -> PermissionDenied:
    """The error about a link, whose path is relative to the root; empty: the root itself."""
    where = root / link
    return PermissionDenied(
        f"{where} is a symbolic link. Its target is not listed or deleted, because it may lie outside the table's "
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
    """Removes files or links of one folder, and returns which of them were there.

    Args:
        root: The root.
        folder: The folder, relative to it; empty: the root itself.
        names: The names of the files.

    Raises:
        PermissionDenied: There is a link on the way to the folder.
        OSError: A file cannot be removed; all others are. It names the first such file.
    """
    segments = folder.split("/") if folder else []
    removed = []
    refused: list[OSError] = []
    # There is nothing to remove below a file either.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), open_folder(root, segments) as descriptor:
        for name in names:
            try:
                os.unlink(name, dir_fd=descriptor)
                removed.append(name)
            except FileNotFoundError:
                pass
            except OSError as error:
                refused.append(error)
    if refused:
        raise refused[0]
    return removed


def remove_if_empty(root: Path, folder: str) -> None:
    """Removes a folder if it is empty; never raises errors of the operating system."""
    segments = folder.split("/") if folder else []
    # The folder is not empty, or is gone: another writer uses it or has removed it.
    with contextlib.suppress(OSError, PermissionDenied):
        if segments:
            with open_folder(root, segments[:-1]) as above:
                os.rmdir(segments[-1], dir_fd=above)
        else:
            os.rmdir(root)


def remove_empty_folders(root: Path) -> None:
    """Removes folders without files, the deepest first and the root last; a folder that gets a file meanwhile stays.

    A folder that cannot be read stays too.

    Raises:
        PermissionDenied: The root is a link.
    """
    with contextlib.suppress(FileNotFoundError), open_folder(root, []) as top:
        for _, folders, _, descriptor in os.fwalk(".", topdown=False, dir_fd=top):
            for name in folders:
                # To the operating system a link is no folder.
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=descriptor)
    with contextlib.suppress(OSError):
        os.rmdir(root)


def list_files(root: Path, prefix: str, pass_over: PassOver | None = None) -> Iterator[StoredObject]:
    """Returns all files below the folder `prefix` (empty: the root), and the links, which it does not follow.

    If the prefix itself is a link, only this link is returned.

    Args:
        root: The root.
        prefix: The folder, relative to it.
        pass_over: Called with each folder that cannot be read, and the reason; None: the listing ends there.

    Raises:
        PermissionDenied: There is a link on the way to the folder.
        OSError: A folder cannot be read.
    """
    segments = prefix.split("/") if prefix else []
    try:
        with open_folder(root, segments) as top:
            yield from _walk(top, prefix, pass_over)
    except PermissionDenied as error:
        if error.reason != LINK_NOT_FOLLOWED or not prefix or error.metadata["link"] != prefix:
            raise
        with open_folder(root, segments[:-1]) as above_it:
            yield _to_object(os.stat(segments[-1], dir_fd=above_it, follow_symlinks=False), prefix)
    except FileNotFoundError:
        return


def _walk(descriptor: int, folder: str, pass_over: PassOver | None) -> Iterator[StoredObject]:
    folders = []
    for name in os.listdir(descriptor):
        path = f"{folder}/{name}" if folder else name
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode):
            folders.append((name, path))
        else:
            yield _to_object(status, path)
    for name, path in folders:
        try:
            below = os.open(name, _FOLDER, dir_fd=descriptor)
        except OSError as error:
            # It is gone, or something else is in its place by now.
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                continue
            if pass_over is None:
                raise
            pass_over(path, error)
            continue
        try:
            yield from _walk(below, path, pass_over)
        finally:
            os.close(below)


def _to_object(status: os.stat_result, path: str) -> StoredObject:
    return StoredObject(path, status.st_size, status.st_mtime_ns // 1_000_000, stat.S_ISLNK(status.st_mode))
