"""The local copies of one table's data files on this host, shared by its processes, within bounds.

Copies are made on demand, under a lock, so processes that need the same one wait for each other. Copies that are unused
for a while are evicted, and so are the least recently used ones if there is too much on disk. A copy in use goes on to
work, and is made again on the next request. The folder's name contains the machine's boot id, so a copy that a power
failure cut short is never read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa

from lakelog.clock import Clock, SystemClock
from lakelog.errors import LakelogError, PermissionDenied, ResourceExhausted
from lakelog.format.types.schema import TableSchema
from lakelog.storage.lookup.local_copy import CopyTooLargeError, LocalCopy, ReadRows, read_file, read_rows, write_copy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.parquet.writer import plan_file_schema

CACHE_VARIABLE: Final = "LAKELOG_CACHE_DIR"
"""The environment variable that names the folder for local copies."""

Note = TypeVar("Note")

_BOOT_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
_MOST_EXPANSION: Final = 32
"""How many times larger than its file a copy can be: compression and dictionaries save a tenth of that."""

_LITTLE_BYTES: Final = 64 << 20
"""The size that any copy can have."""

_SUFFIX: Final = ".copy"
_LOCKS: Final = 16
_USE_NOTED_MS: Final = 1000
"""How often a use is recorded on disk, at most."""

_LOOK_EVERY_MS: Final = 60_000
"""How often a process looks through all copies of a table. Small commits make tens of thousands of them an hour."""

_KEPT_PART: Final = 0.9
"""Down to this part of the limit copies are deleted, so that the next one made is not too much again."""

_MOST_OPEN: Final = 500
"""Copies that a process keeps mapped. Linux allows it 65,530 mappings, and small commits make many files."""

_MOST_NOTED: Final = 10_000
"""Files of which a process remembers what it has found out, some 2 MB; the rest is found out once more."""


@dataclass(frozen=True)
class CacheLimits:
    """The limits of a table's copies.

    Args:
        disk_bytes: Of all copies of the table on this host; the last one made may exceed it, and so may those of files
            that a commit has just written, until their lookup. None: no limit.
        memory_bytes: Of the copies that this process has mapped, at most 500; the last one used may exceed it.
        retention_ms: How long an unused copy stays.
    """

    disk_bytes: int | None
    memory_bytes: int
    retention_ms: int


@dataclass
class CacheStatistics:
    """What a cache of this process has done since it was made. Counts only rise.

    Attributes:
        hits: Files whose lookups used an existing copy.
        direct_bytes: Bytes of data files that lookups read without a copy.
        copies_made: Copies made by this process.
        bytes_made: Their bytes.
        copies_evicted: Copies deleted by this process.
        bytes_evicted: Their bytes.
    """

    hits: int = 0
    direct_bytes: int = 0
    copies_made: int = 0
    bytes_made: int = 0
    copies_evicted: int = 0
    bytes_evicted: int = 0


def find_cache_folder(setting: str | None) -> Path:
    """Returns the folder of this host and user for local copies of all tables; makes it if needed.

    Args:
        setting: The value of the variable `LAKELOG_CACHE_DIR`; None or empty: a folder for temporary files.

    Raises:
        PermissionDenied: The folder belongs to another user, or others may write to it: they could change rows.
    """
    boot = _BOOT_FILE.read_text().strip().replace("-", "")[:12] if _BOOT_FILE.exists() else "unknown"
    root = Path(setting) if setting else Path(tempfile.gettempdir()) / f"lakelog-cache-{os.getuid()}"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        (root / boot).mkdir(mode=0o700, exist_ok=True)
        found = root.lstat()
    except OSError as error:
        raise _translate(error, root) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionDenied(
            f"The folder for local copies, {root}, belongs to another user or may be written to by others. Name "
            f"another one by the variable {CACHE_VARIABLE}, or make it yours alone (chmod 700)."
        )
    return root / boot


class CopyCache:
    """Local copies of the data files of one table. Threads may share it, and processes the folder.

    Args:
        folder: A folder for this table alone; it is made with the first copy.
        limits: The limits of the copies.
        clock: For the age of copies.
    """

    def __init__(self, folder: Path, limits: CacheLimits, clock: Clock | None = None) -> None:
        self._folder = folder
        self._limits = limits
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._open: OrderedDict[str, LocalCopy] = OrderedDict()
        # Files by name that this process has made or checked, so that they need not be checked again when opened again.
        self._trusted: _Notes[_Identity] = _Notes()
        self._noted_ms: _Notes[int] = _Notes()
        self._direct_bytes: _Notes[int] = _Notes()
        self._too_large: _Notes[bool] = _Notes()
        # When this process last looked through the copies, and how many bytes it knows of since then.
        self._looked_ms: int | None = None
        self._known_bytes = 0
        self.statistics: Final = CacheStatistics()

    def find(self, file: LiveFile, schema: TableSchema, names: Sequence[str]) -> LocalCopy | None:
        """Returns the copy of a file, if there is one with these columns.

        Args:
            file: The data file.
            schema: The schema to read it with.
            names: Columns that must be in it.
        """
        name = _name(file, schema)
        copy = self._find_open(name, file)
        if copy is None or not copy.column_names.issuperset(names):
            return None
        self.statistics.hits += 1
        self._note_use(name)
        return copy

    def obtain(
        self, store: ObjectStore, file: LiveFile, schema: TableSchema, fields: Sequence[pa.Field], key: Sequence[str]
    ) -> LocalCopy:
        """Returns the copy of a file; makes it if needed, including the columns of an older one.

        Args:
            store: Where the data file is.
            file: The data file; its rows are sorted by the key, one row a key.
            schema: The schema to read it with.
            fields: Columns that it must have, including those of the key.
            key: Names of the key's columns.

        Raises:
            CopyTooLargeError: The copy would be too large, so the file is to be read itself.
            DataCorrupted: The data file is damaged.
            ResourceExhausted: The disk is full.
        """
        names = [field.name for field in fields]
        if (copy := self.find(file, schema, names)) is not None:
            return copy
        name = _name(file, schema)
        if name in self._too_large:
            raise CopyTooLargeError
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked(name):
                copy = self._find_open(name, file)
                if copy is None or not copy.column_names.issuperset(names):
                    copy = self._make(store, file, name, _add_fields(fields, copy, schema), key)
        except CopyTooLargeError:
            with self._lock:
                self._too_large[name] = True
            raise
        except OSError as error:
            raise _translate(error, self._folder) from error
        self.evict()
        return copy

    def offer(self, file: LiveFile, schema: TableSchema, rows: pa.Table, key: Sequence[str]) -> None:
        """Makes the copy of a file whose rows are in memory, unless there is one; does not raise if that fails.

        Too many copies stay until the next `evict`: a commit offers many files, and checking all copies for each of
        them would take longer than making it.

        Args:
            file: The data file.
            schema: The schema it was written with.
            rows: Its rows, as a read of the file returns them.
            key: Names of the key's columns.
        """
        name = _name(file, schema)
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked(name):
                if self._find_open(name, file) is None:
                    self._write(read_rows(rows), list(rows.schema), key, name)

    def reads_direct(self, file: LiveFile, size_bytes: int) -> bool:
        """Whether to read this many bytes directly from a file, and not copy all of it first.

        Yes until the direct reads of the file add up to its size: so at most twice the optimal amount is read, whatever
        follows.

        Args:
            file: The data file.
            size_bytes: What would be read of it; counted if the answer is yes.
        """
        with self._lock:
            spent = self._direct_bytes.get(file.path, 0) + size_bytes
            if spent > file.size_bytes:
                self._direct_bytes.pop(file.path, None)
                return False
            self._direct_bytes[file.path] = spent
            self.statistics.direct_bytes += size_bytes
            return True

    def evict(self) -> None:
        """Deletes copies that are unused for too long, or too many, the least recently used first.

        It looks through the folder if what this process has made since the last time may be too much, and else every
        minute: until then copies of other processes may be too many.
        """
        if not self._begin_to_look():
            return
        found: list[tuple[float, int, str]] = []
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._folder):
                # Another process may delete files of this listing.
                with contextlib.suppress(FileNotFoundError):
                    if not entry.name.startswith(".lock"):
                        status = entry.stat()
                        found.append((status.st_mtime, status.st_size, entry.name))
        found.sort()
        total = sum(size for _, size, _ in found)
        limit = self._limits.disk_bytes
        kept_bytes = total if limit is None or total <= limit else int(limit * _KEPT_PART)
        oldest_kept = (self._clock.now_ms() - self._limits.retention_ms) / 1000
        for used, size, name in found:
            if used >= oldest_kept and total <= kept_bytes:
                continue
            if name.startswith(".") and used >= oldest_kept:
                # Another process is writing it.
                continue
            with contextlib.suppress(FileNotFoundError):
                (self._folder / name).unlink()
                self.statistics.copies_evicted += 1
                self.statistics.bytes_evicted += size
            total -= size
            self._forget(name)
        with self._lock:
            self._known_bytes += total

    def _begin_to_look(self) -> bool:
        now_ms, limit = self._clock.now_ms(), self._limits.disk_bytes
        with self._lock:
            every_ms = min(_LOOK_EVERY_MS, self._limits.retention_ms)
            # A clock that was set back has not passed this time yet.
            is_recent = self._looked_ms is not None and self._looked_ms <= now_ms < self._looked_ms + every_ms
            if is_recent and (limit is None or self._known_bytes <= limit):
                return False
            # What others make meanwhile is counted twice at most.
            self._looked_ms, self._known_bytes = now_ms, 0
            return True

    def _make(
        self, store: ObjectStore, file: LiveFile, name: str, fields: Sequence[pa.Field], key: Sequence[str]
    ) -> LocalCopy:
        with DataFileReader(store, file) as reader:
            most_bytes = max(_LITTLE_BYTES, _MOST_EXPANSION * file.size_bytes)
            return self._write(read_file(reader), fields, key, name, most_bytes)

    def _write(
        self,
        read: ReadRows,
        fields: Sequence[pa.Field],
        key: Sequence[str],
        name: str,
        most_bytes: int | None = None,
    ) -> LocalCopy:
        path = self._folder / name
        write_copy(read, fields, key, path, most_bytes)
        identity, copy = _identify(path), LocalCopy(path, check=False)
        self.statistics.copies_made += 1
        self.statistics.bytes_made += copy.size_bytes
        with self._lock:
            self._known_bytes += copy.size_bytes
        self._keep(name, copy, identity)
        return copy

    def _find_open(self, name: str, file: LiveFile) -> LocalCopy | None:
        path = self._folder / name
        with self._lock:
            copy = self._open.get(name)
            if copy is not None and not self._was_resized(name, path):
                self._open.move_to_end(name)
                return copy
        if copy is not None:
            self._forget(name)
        try:
            identity = _identify(path)
            copy = LocalCopy(path, check=self._trusted.get(name) != identity)
        except (OSError, pa.ArrowInvalid):
            # Missing, or changed by a failing disk or another writer to the folder: it is made again.
            self._forget(name)
            return None
        if copy.row_count != file.row_count:
            return None
        self._keep(name, copy, identity)
        return copy

    def _was_resized(self, name: str, path: Path) -> bool:
        """Whether the file of an open copy changed its size in place, which no process of lakelog does.

        SUBTLE: reading a page that is gone from a mapped file ends the process (SIGBUS), so this is checked before each
        use; changes to the file during a use are not noticed. A deleted or replaced file does no harm: the mapping
        keeps its own data.
        """
        known = self._trusted.get(name)
        try:
            found = _identify(path)
        except OSError:
            return False
        return known is not None and found.inode == known.inode and found.size_bytes != known.size_bytes

    def _keep(self, name: str, copy: LocalCopy, identity: _Identity) -> None:
        with self._lock:
            self._trusted[name] = identity
            self._open[name] = copy
            self._open.move_to_end(name)
            held = sum(each.size_bytes for each in self._open.values())
            while (held > self._limits.memory_bytes or len(self._open) > _MOST_OPEN) and len(self._open) > 1:
                _, dropped = self._open.popitem(last=False)
                held -= dropped.size_bytes

    def _forget(self, name: str) -> None:
        with self._lock:
            self._open.pop(name, None)
            self._trusted.pop(name, None)
            self._noted_ms.pop(name, None)

    def _note_use(self, name: str) -> None:
        now = self._clock.now_ms()
        with self._lock:
            if now - self._noted_ms.get(name, 0) < _USE_NOTED_MS:
                return
            self._noted_ms[name] = now
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._folder / name, (now / 1000, now / 1000))

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Prevents other processes and threads from making the same copy; the lock of a dead process is released."""
        with open(self._folder / f".lock-{int(name[:8], 16) % _LOCKS}", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class _Notes(dict[str, Note]):
    """What was found out last about files, by name."""

    def __setitem__(self, name: str, note: Note, /) -> None:
        self.pop(name, None)
        super().__setitem__(name, note)
        if len(self) > _MOST_NOTED:
            del self[next(iter(self))]


class _Identity(NamedTuple):
    """Identifies a file, and shows whether it was cut or grew; its times change with each use."""

    inode: int
    size_bytes: int


def _identify(path: Path) -> _Identity:
    found = os.stat(path)
    return _Identity(found.st_ino, found.st_size)


def _name(file: LiveFile, schema: TableSchema) -> str:
    path = hashlib.sha256(file.path.encode()).hexdigest()[:32]
    return f"{path}-{schema.schema_id}-{schema.digest}{_SUFFIX}"


def _add_fields(fields: Sequence[pa.Field], copy: LocalCopy | None, schema: TableSchema) -> list[pa.Field]:
    """Adds the columns of an older copy, so that readers of different columns do not replace each other's copies."""
    known = {field.name for field in fields}
    older = copy.column_names if copy is not None else frozenset()
    # As files store them: rows of all copies must be compatible.
    stored = plan_file_schema(schema, with_row_kind=False)
    return [*fields, *(field for field in stored if field.name in older and field.name not in known)]


def _translate(error: OSError, folder: Path) -> LakelogError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceExhausted(
            f"There is no room for local copies in {folder}: {error.strerror}. Make room, lower the option "
            f"'lookup.cache-max-disk-size', or name another folder by the variable {CACHE_VARIABLE}.",
            reason="DISK_FULL",
        )
    return PermissionDenied(
        f"Local copies cannot be kept in {folder}: {error.strerror}. Name another folder by the variable "
        f"{CACHE_VARIABLE}."
    )
