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
from functools import lru_cache, partial
from typing import Final, TypeVar
from urllib.parse import urlsplit

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
from lakelog.privacy.redaction import blot_out_forms
from lakelog.storage.objects.calls import CALLS, InterruptedCallError, NoAnswerError
from lakelog.storage.objects.s3_input import S3Input, open_s3_input
from lakelog.storage.objects.store import PassOver, S3Settings, StoredObject, check_path, check_prefix, to_pages

Result = TypeVar("Result")

_CONNECT_TIMEOUT_S: Final = 5.0
_SILENCE_S: Final = 30.0
"""A connection without any byte for so long is given up, and the request is made again."""

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


@lru_cache(maxsize=32)
def _open_filesystem(settings: S3Settings) -> fs.S3FileSystem:
    """Arrow's file system for some settings.

    SUBTLE: pyarrow (26) makes a new one only when no request of the process is running. If each table had its own, the
    first access to a table would wait for a store that is silent about another one.
    """
    endpoint = urlsplit(settings.endpoint) if settings.endpoint else None
    if endpoint and (endpoint.scheme not in ("http", "https") or not endpoint.netloc):
        shown = blot_out_forms(settings.endpoint or "")
        raise InvalidArgument(f"S3 endpoint '{shown}' is not http://host:port or https://host:port.")
    return fs.S3FileSystem(
        access_key=settings.access_key_id,
        secret_key=settings.secret_access_key,
        session_token=settings.session_token,
        # Asking Amazon for a region, which a custom endpoint makes meaningless, would be a useless call.
        region=settings.region or ("us-east-1" if endpoint else None),
        scheme=endpoint.scheme if endpoint else None,
        endpoint_override=endpoint.netloc if endpoint else None,
        connect_timeout=_CONNECT_TIMEOUT_S,
        request_timeout=_SILENCE_S,
        # It waits between the attempts for a random time of up to 1 s, 2 s, 4 s ... 20 s, and less often than that
        # if most requests of this store fail.
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=settings.attempts),
        # A small object is one request instead of three, and no failure leaves an open upload.
        allow_delayed_open=True,
    )


class S3Store:
    """Objects of one bucket below a prefix; pickles with its settings.

    Args:
        bucket: The bucket, which must exist.
        prefix: Without slashes at its ends; may be empty.
        settings: How to reach it.
    """

    def __init__(self, bucket: str, prefix: str, settings: S3Settings) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._settings = settings

    def __repr__(self) -> str:
        return f"S3Store({self.location!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (S3Store, (self._bucket, self._prefix, self._settings))

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
        """Arrow's file system, which all stores with the same settings share."""
        return _open_filesystem(self._settings)

    def open_input(self, path: str) -> S3Input:
        key = self._key(path)
        source = self._ask(key, lambda: self.filesystem.open_input_file(key))
        return open_s3_input(source, partial(self._ask, key), f"s3://{key}")

    def create(self, path: str) -> S3Writer:
        key = self._key(path)

        def begin() -> pa.NativeFile:
            if self.filesystem.get_file_info(key).type != fs.FileType.NotFound:
                raise AlreadyExists(f"Object s3://{key} exists already and is never overwritten.")
            return self.filesystem.open_output_stream(key, compression=None)

        return S3Writer(self, path, self._ask(key, begin))

    def delete(self, path: str) -> bool:
        return self._delete(path)

    def _delete(self, path: str, timeout_s: float | None = None) -> bool:
        key = self._key(path)
        try:
            self._ask(key, lambda: self.filesystem.delete_file(key), timeout_s=timeout_s)
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
        infos = self._ask(folder, lambda: self.filesystem.get_file_info(selector), timeout_s=_LISTING_S)
        return (
            StoredObject(info.path[skipped:], info.size, (info.mtime_ns or 0) // 1_000_000)
            for info in infos
            if info.type == fs.FileType.File
        )

    def delete_empty_folders(self) -> None:
        """Does nothing: a bucket has no folders of its own."""

    def size(self, path: str) -> int:
        key = self._key(path)
        info = self._ask(key, lambda: self.filesystem.get_file_info(key))
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
        self, key: str, work: Callable[[], Result], size_bytes: int = 0, *, timeout_s: float | None = None
    ) -> Result:
        """Makes a call that moves so many bytes, and translates its errors."""
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
        self._store._ask(self._store._key(self._path), self._sink.close, size_bytes, timeout_s=timeout_s)

    def _is_complete(self, size_bytes: int) -> bool:
        """Whether the object is there with all bytes: no one else writes to its path, and S3 shows no half objects."""
        try:
            return self._store.size(self._path) == size_bytes
        except LakelogError:
            return False


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
