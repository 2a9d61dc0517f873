"""Objects as files of a local (or shared) file system."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from lakelog.errors import (
    AlreadyExists,
    DataCorrupted,
    LakelogError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from lakelog.storage.objects.durable import synchronise
from lakelog.storage.objects.local_folders import (
    list_files,
    remove_empty_folders,
    remove_files,
    remove_if_empty,
)
from lakelog.storage.objects.store import PassOver, StoredObject, check_path, check_prefix, to_pages


class LocalStore:
    """Files below a folder.

    An object is made under its own name with O_EXCL, so two writers never share one. It counts as durable after its
    data and all newly made folders on its path are synchronised. A file that a crash cuts short belongs to an attempt
    that never committed.

    Args:
        root: Absolute path of the folder; it is made with the first object.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def __repr__(self) -> str:
        return f"LocalStore({self.location!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and other._root == self._root

    def __hash__(self) -> int:
        return hash(self._root)

    @property
    def location(self) -> str:
        """`file://` and the folder; ends with a slash."""
        return f"file://{quote(str(self._root))}/"

    def open_input(self, path: str) -> pa.NativeFile:
        target = self._resolve(path)
        with _translated(target):
            return pa.OSFile(str(target), "rb")

    def create(self, path: str) -> LocalWriter:
        """Makes a file, and the folders it needs."""
        target = self._resolve(path)
        with _translated(target):
            unsynced = _make_folders(target.parent)
            try:
                _make_empty(target)
            except FileNotFoundError:
                # Another writer of the same attempt removed its last file and the folder with it. It does so once, so
                # one more try is enough.
                unsynced = _make_folders(target.parent)
                _make_empty(target)
            return LocalWriter(self._root, path, unsynced)

    def delete(self, path: str) -> bool:
        """Removes a file; its folders remain."""
        folder, _, name = check_path(path).rpartition("/")
        with _translated(self._root / path):
            return bool(remove_files(self._root, folder, [name]))

    def delete_many(self, paths: Sequence[str]) -> None:
        """Removes files, then the folders that are empty after this.

        A file that cannot be removed does not stop the others; the first such error is raised at the end.
        """
        by_folder: dict[str, list[str]] = {}
        for path in paths:
            folder, _, name = check_path(path).rpartition("/")
            by_folder.setdefault(folder, []).append(name)
        refusals: list[LakelogError] = []
        for folder, names in by_folder.items():
            try:
                remove_files(self._root, folder, names)
            except LakelogError as error:
                refusals.append(error)
            except OSError as error:
                refusals.append(translate_os_error(error, str(self._root / folder / (error.filename or names[0]))))
            remove_if_empty(self._root, folder)
        if refusals:
            raise refusals[0]

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """Returns all files below the folder `prefix`, by path, and the links, which it does not follow."""
        with _translated(self._root / prefix):
            return iter(sorted(list_files(self._root, check_prefix(prefix)), key=lambda object_: object_.path))

    def list_pages(self, page_size: int, pass_over: PassOver | None = None) -> Iterator[list[StoredObject]]:
        """Returns all files in pages, folder by folder, and the links, which it does not follow."""

        def leave(folder: str, error: OSError) -> None:
            assert pass_over is not None
            pass_over(folder, translate_os_error(error, str(self._root / folder)))

        with _translated(self._root):
            yield from to_pages(list_files(self._root, "", None if pass_over is None else leave), page_size)

    def delete_empty_folders(self) -> None:
        """Removes the folders without files, the deepest first; one that gets a file meanwhile remains."""
        with _translated(self._root):
            remove_empty_folders(self._root)

    def size(self, path: str) -> int:
        target = self._resolve(path)
        with _translated(target):
            return target.stat().st_size

    def _resolve(self, path: str) -> Path:
        return self._root / check_path(path)


class LocalWriter:
    """A file during its write.

    Args:
        root: The folder of the store.
        path: The file below it, which exists and is empty.
        unsynced: Folders whose entries must become durable with it.
    """

    def __init__(self, root: Path, path: str, unsynced: list[Path]) -> None:
        self._root = root
        self._path = path
        self._target = target = root / path
        self._unsynced = unsynced
        self._ended = False
        self._sink = pa.OSFile(str(target), "wb")

    @property
    def sink(self) -> pa.NativeFile:
        return self._sink

    def commit(self) -> int:
        """Synchronises the file and its folders, and returns its size."""
        with _translated(self._target):
            self._sink.close()
            descriptor = os.open(self._target, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
                size_bytes = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            for folder in self._unsynced:
                synchronise(folder)
        self._ended = True
        return size_bytes

    def abort(self) -> None:
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(OSError, pa.ArrowException):
            self._sink.close()
        folder, _, name = self._path.rpartition("/")
        with contextlib.suppress(OSError, LakelogError):
            remove_files(self._root, folder, [name])
        remove_if_empty(self._root, folder)


def _make_empty(target: Path) -> None:
    # SUBTLE: Arrow's own file opens with O_TRUNC. The winner of O_EXCL owns the name, so truncating is harmless.
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _make_folders(folder: Path) -> list[Path]:
    """Makes a folder and its parents; returns those whose entries changed: the parents of new ones, and itself."""
    try:
        # Nearly always the parents exist: an attempt's folder is new, the table's is not.
        os.mkdir(folder)
    except FileExistsError:
        return [folder]
    except FileNotFoundError:
        pass
    else:
        return [folder, folder.parent]
    missing: list[Path] = []
    walk = folder
    while not walk.exists():
        missing.append(walk)
        walk = walk.parent
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
    return [folder, *(made.parent for made in missing)]


@contextlib.contextmanager
def _translated(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise translate_os_error(error, str(target)) from error


def translate_os_error(error: OSError, name: str) -> LakelogError:
    """Returns the lakelog error for an operating system's error on the file `name`."""
    metadata = {"path": name}
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        # There is no file below a file, as in a missing folder.
        return NotFound(f"File {name} does not exist.", reason="FILE_NOT_FOUND", metadata=metadata)
    if isinstance(error, IsADirectoryError):
        return DataCorrupted(
            f"{name} is a folder, where a file was expected: look which program made it.", metadata=metadata
        )
    if isinstance(error, FileExistsError):
        return AlreadyExists(f"File {name} exists already and is never overwritten.", metadata=metadata)
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return PermissionDenied(
            f"This user may not read or write {name}: {error.strerror}. Give it the right, or check the warehouse.",
            metadata=metadata,
        )
    said = os.strerror(error.errno) if error.errno else str(error)  # Arrow's own text repeats itself.
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceExhausted(
            f"File {name} cannot be written: {said}. Nothing of this write is visible. Make room there, then write "
            "again.",
            reason="DISK_FULL",
            metadata=metadata,
        )
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return ResourceExhausted(
            f"File {name} cannot be opened: {said}. Raise the limit of open files (ulimit -n).", metadata=metadata
        )
    return Unavailable(f"File {name} cannot be reached: {said}.", metadata=metadata)
