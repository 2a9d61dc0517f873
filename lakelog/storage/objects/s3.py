"""Objects in S3 and stores that speak its protocol.

pyarrow's S3 file system (26) has no conditional write (`If-None-Match`). So the name keeps two writers from sharing an
object: every data file is in the folder of its attempt, and the metastore gives out each attempt id once. `create`
first checks whether the object exists, which finds mistakes but is no guarantee between two writers.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
from pyarrow import fs

from lakelog.errors import (
    INVALID_PATH,
    AlreadyExists,
    InvalidArgument,
    LakelogError,
    NotFound,
    PermissionDenied,
    Unavailable,
)
from lakelog.storage.objects.calls import CALLS, InterruptedCallError, NoAnswerError
from lakelog.storage.objects.s3_input import S3Input, open_s3_input
from lakelog.storage.objects.s3_keys import Keys, OpenedKeys, OwnKeys
from lakelog.storage.objects.store import PassOver, S3Settings, StoredObject, check_path, check_prefix, to_pages

Result = TypeVar("Result")

_SLOWEST_BYTES_PER_S: Final = 256 << 10
"""A call that moves many bytes has a second more for so many."""

_LISTING_S: Final = 3600.0
"""A listing of some million objects takes thousands of requests, which are one call."""

_ABORT_S: Final = 10.0
"""How long each of the two calls takes at most that remove what was written; a compactor removes what they leave."""

_INTERRUPTED: Final = "INTERRUPTED"
_DELETE_THREADS: Final = 8
_LONGEST_KEY: Final = 1024
_ERROR_CODE: Final = re.compile(r"AWS Error ([A-Z_]+)(?: \((HTTP status \d+)\))?")
_OVERLOADED: Final = frozenset(
    {"SLOW_DOWN", "INTERNAL_FAILURE", "SERVICE_UNAVAILABLE", "THROTTLING", "REQUEST_TIMEOUT"}
)
_DENIED: Final = frozenset(
    {"ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID", "EXPIRED_TOKEN"}
)


class S3Store:
    """Objects of one bucket below a prefix; pickles with its settings.

    Args:
        bucket: The bucket, which must exist.
        prefix: Without slashes at its ends; may be empty.
        settings: How to reach it.
        keys: The keys that sign its requests; None: those of the settings.
    """

    def __init__(self, bucket: str, prefix: str, settings: S3Settings, keys: Keys | None = None) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._settings = settings
        self._given = keys
        self._keys: Keys = keys or OwnKeys(settings)

    def __repr__(self) -> str:
        return f"S3Store({self.location!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (S3Store, (self._bucket, self._prefix, self._settings, self._given))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, S3Store) and other.__reduce__() == self.__reduce__()

    def __hash__(self) -> int:
        return hash((self._bucket, self._prefix))

    @property
    def location(self) -> str:
        """`s3://`, bucket and prefix; ends with a slash."""
        return f"s3://{self._bucket}/{self._prefix}/" if self._prefix else f"s3://{self._bucket}/"

    @property
    def filesystem(self) -> fs.S3FileSystem:
        """Arrow's file system with present keys for reading; stores with the same settings share it."""
        return self._keys.find().filesystem

    def open_input(self, path: str) -> S3Input:
        key = self._key(path)

        def open_source(filesystem: fs.S3FileSystem) -> tuple[fs.S3FileSystem, pa.NativeFile]:
            return filesystem, filesystem.open_input_file(key)

        opened = self._ask(key, open_source, may_be_missing=True)
        return open_s3_input(opened, partial(self._ask, key), key)

    def create(self, path: str) -> S3Writer:
        key = self._key(path)

        if self._exists(key):
            raise AlreadyExists(f"Object s3://{key} exists already and is never overwritten.")
        sink = self._ask(key, lambda filesystem: filesystem.open_output_stream(key, compression=None), writes=True)
        return S3Writer(self, path, sink)

    def _exists(self, key: str) -> bool:
        try:
            info = self._ask(
                key,
                lambda filesystem: filesystem.get_file_info(key),
                writes=True,
                may_be_missing=True,
                is_new=True,
            )
        except NotFound:
            return False
        return bool(info.type != fs.FileType.NotFound)

    def delete(self, path: str) -> bool:
        return self._delete(path)

    def _delete(self, path: str, timeout_s: float | None = None) -> bool:
        key = self._key(path)
        try:
            self._ask(
                key,
                lambda filesystem: filesystem.delete_file(key),
                writes=True,
                may_be_missing=True,
                timeout_s=timeout_s,
            )
        except NotFound:
            return False
        return True

    def delete_many(self, paths: Sequence[str]) -> None:
        """Removes objects, several at once."""
        with ThreadPoolExecutor(_DELETE_THREADS) as pool:
            for _ in pool.map(self.delete, paths):
                pass

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        return iter(sorted(self._list(check_prefix(prefix)), key=lambda object_: object_.path))

    def list_pages(self, page_size: int, pass_over: PassOver | None = None) -> Iterator[list[StoredObject]]:
        """All objects in pages. A listing of Arrow takes some 200 bytes per object until the last page."""
        return to_pages(self._list(""), page_size)

    def _list(self, prefix: str) -> Iterator[StoredObject]:
        folder = "/".join(part for part in (self._bucket, self._prefix, prefix) if part)
        skipped = len(self.location) - len("s3://")
        selector = fs.FileSelector(folder, allow_not_found=True, recursive=True)
        infos = self._ask(folder, lambda filesystem: filesystem.get_file_info(selector), timeout_s=_LISTING_S)
        return (
            StoredObject(info.path[skipped:], info.size, (info.mtime_ns or 0) // 1_000_000)
            for info in infos
            if info.type == fs.FileType.File
        )

    def delete_empty_folders(self) -> None:
        """Does nothing: a bucket has no folders of its own."""

    def size(self, path: str) -> int:
        key = self._key(path)
        info = self._ask(key, lambda filesystem: filesystem.get_file_info(key), may_be_missing=True)
        if info.type != fs.FileType.File:
            raise NotFound(f"Object s3://{key} does not exist.", reason="FILE_NOT_FOUND", metadata={"path": key})
        return int(info.size)

    def _key(self, path: str) -> str:
        check_path(path)
        if len(self._prefix.encode()) + len(path) >= _LONGEST_KEY:
            raise InvalidArgument(
                f"Path {path[:200]!r} below the prefix {self._prefix[:200]!r} makes a key of more than {_LONGEST_KEY} "
                "bytes, which S3 does not take.",
                reason=INVALID_PATH,
                metadata={"field": "path", "value": path[:200]},
            )
        return "/".join(part for part in (self._bucket, self._prefix, path) if part)

    def _ask(
        self,
        key: str,
        work: Callable[[fs.S3FileSystem], Result],
        size_bytes: int = 0,
        *,
        writes: bool = False,
        may_be_missing: bool = False,
        is_new: bool = False,
        timeout_s: float | None = None,
    ) -> Result:
        """Makes a call that moves so many bytes, and translates its errors.

        A call that the store refuses is made once more if the keys may have ended, so it must be safe to repeat.

        Args:
            key: Bucket and key.
            work: The call.
            size_bytes: How many bytes it moves.
            writes: Whether it needs keys for writing.
            may_be_missing: It is about one object, which may not exist.
            is_new: Most likely it does not, and nothing is lost if it is taken for missing.
            timeout_s: The limit; None: that of the settings.
        """
        keys = self._keys.find(writes=writes)
        try:
            return self._run(key, lambda: work(keys.filesystem), size_bytes, timeout_s)
        except PermissionDenied as error:
            # First: otherwise each new object would cost others their keys.
            is_missing = self._is_missing(key, keys, is_new=is_new) if may_be_missing else None
            if is_missing:
                raise _make_not_found(key, error) from None
            if is_missing is not None or not self._keys.drop(keys):
                raise
        keys = self._keys.find(writes=writes)
        try:
            return self._run(key, lambda: work(keys.filesystem), size_bytes, timeout_s)
        except PermissionDenied as error:
            if may_be_missing and self._is_missing(key, keys, is_new=is_new):
                raise _make_not_found(key, error) from None
            raise

    def _is_missing(self, key: str, keys: OpenedKeys, *, is_new: bool) -> bool | None:
        """Whether an object that the store refused does not exist; None: listings are refused, too, or fail.

        SUBTLE: Amazon answers "access denied" about a missing object if the keys may not list the whole bucket, and
            vended keys list only the folder of their table. An object that exists is not refused to them. So for a new
            object it suffices that they are still accepted, by a listing of what is below its name: nothing. A listing
            of the folder would take longer with each file of an attempt.
        """
        short = is_new and keys.is_vended
        selector = fs.FileSelector(key if short else key.rpartition("/")[0], allow_not_found=True)
        try:
            infos = self._run(key, lambda: keys.filesystem.get_file_info(selector), 0, None)
        except LakelogError:
            return None
        return short or all(info.path != key for info in infos)

    def _run(self, key: str, work: Callable[[], Result], size_bytes: int, timeout_s: float | None) -> Result:
        timeout_s = timeout_s or self._settings.timeout_s + size_bytes / _SLOWEST_BYTES_PER_S
        try:
            return CALLS.run(work, timeout_s)
        except (OSError, pa.ArrowException, NoAnswerError) as error:
            raise translate_s3_error(error, key, self._settings.endpoint) from None


class S3Writer:
    """An object during its upload."""

    def __init__(self, store: S3Store, path: str, sink: pa.NativeFile) -> None:
        self._store = store
        self._path = path
        self._sink = sink
        self._ended = False
        self._is_closed = False

    @property
    def sink(self) -> pa.NativeFile:
        """The stream for its bytes; parts are uploaded in the background."""
        return self._sink

    def commit(self) -> int:
        """Completes the upload, and returns the object's size."""
        size_bytes = int(self._sink.tell())
        try:
            self._close(size_bytes)
        except LakelogError as error:
            # The object can be complete: the answer was lost, or an error came after the work.
            if error.reason == _INTERRUPTED or not self._is_complete(size_bytes):
                raise
        self._ended = True
        return size_bytes

    def abort(self) -> None:
        """Ends the upload and removes the object: pyarrow can only complete an upload, not abort it."""
        if self._ended:
            return
        self._ended = True
        if not self._is_closed:
            with contextlib.suppress(LakelogError, OSError, pa.ArrowException):
                self._close(int(self._sink.tell()), _ABORT_S)
        with contextlib.suppress(LakelogError):
            self._store._delete(self._path, _ABORT_S)

    def _close(self, size_bytes: int, timeout_s: float | None = None) -> None:
        # Once only: a call without an answer may run on, and another one beside it would use the same upload.
        self._is_closed = True
        self._store._run(self._store._key(self._path), self._sink.close, size_bytes, timeout_s)

    def _is_complete(self, size_bytes: int) -> bool:
        """Whether the object is there with all bytes: no one else writes to its path, and S3 shows no half objects."""
        try:
            return self._store.size(self._path) == size_bytes
        except LakelogError:
            return False


def _make_not_found(key: str, error: PermissionDenied) -> NotFound:
    return NotFound(f"Object s3://{key} does not exist.", reason="FILE_NOT_FOUND", metadata=error.metadata)


def translate_s3_error(error: BaseException, key: str, endpoint: str | None = None) -> LakelogError:
    """Returns the lakelog error for S3's error on an object.

    Only Amazon's own error code is repeated: the texts may contain request headers.

    Args:
        error: What pyarrow raised, or that it has not answered.
        key: Bucket and key.
        endpoint: The store, if it is not Amazon's.
    """
    found = _ERROR_CODE.search(str(error))
    code = found.group(2) or found.group(1) if found else type(error).__name__
    store = f"S3 at {endpoint}" if endpoint else "S3"
    metadata = {"path": key, "code": code}
    if isinstance(error, InterruptedCallError):
        return Unavailable(f"A call of {store} for s3://{key} was interrupted.", reason=_INTERRUPTED, metadata=metadata)
    if isinstance(error, NoAnswerError):
        return Unavailable(
            f"{store} did not complete a call for s3://{key} in time ({error}). Try again later; if the store is only "
            "slow, raise LAKELOG_S3_TIMEOUT.",
            reason="STORE_SLOW",
            metadata={"path": key},
        )
    if isinstance(error, FileNotFoundError) or code in ("NO_SUCH_KEY", "NO_SUCH_BUCKET", "RESOURCE_NOT_FOUND"):
        return NotFound(f"Object s3://{key} or its bucket does not exist.", reason="FILE_NOT_FOUND", metadata=metadata)
    if code in _DENIED or isinstance(error, PermissionError):
        return PermissionDenied(
            f"{store} refuses access to s3://{key} ({code}): check the credentials (LAKELOG_S3_* or AWS_*) and rights.",
            metadata=metadata,
        )
    if code in _OVERLOADED or code.startswith("HTTP status 5"):
        return Unavailable(
            f"{store} answered with the error {code} for s3://{key}, also when the call was repeated. Try again later; "
            "if it stays so, look at the store. LAKELOG_S3_ATTEMPTS sets how often a call is made.",
            reason="STORE_BUSY",
            metadata=metadata,
        )
    return Unavailable(
        f"{store} cannot be reached for s3://{key} ({code}): check endpoint, region and network.", metadata=metadata
    )
