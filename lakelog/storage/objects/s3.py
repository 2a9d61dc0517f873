"""Objects in S3 and stores that speak its protocol.

pyarrow's S3 file system (26) has no conditional write (`If-None-Match`). So the name keeps two writers from sharing an
object: every data file is in the folder of its attempt, and the metastore gives out each attempt id once. `create`
first checks whether the object exists, which finds mistakes but is no guarantee between two writers.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Final
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
from lakelog.storage.objects.store import PassOver, S3Settings, StoredObject, check_path, check_prefix, to_pages

_CONNECT_TIMEOUT_S: Final = 5.0
_REQUEST_TIMEOUT_S: Final = 30.0
"""One request moves at most one part of an upload or one range of a read, some megabytes."""

_DELETE_THREADS: Final = 8
_LONGEST_KEY: Final = 1024
_ERROR_CODE: Final = re.compile(r"AWS Error ([A-Z_]+)")
_DENIED: Final = frozenset(
    {"ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID", "EXPIRED_TOKEN"}
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

    @cached_property
    def filesystem(self) -> fs.S3FileSystem:
        """Arrow's file system for the bucket."""
        settings = self._settings
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
            request_timeout=_REQUEST_TIMEOUT_S,
        )

    def open_input(self, path: str) -> pa.NativeFile:
        """Opens an object for random access."""
        key = self._key(path)
        with self._translated(key):
            return self.filesystem.open_input_file(key)

    def create(self, path: str) -> S3Writer:
        """Begins a new object by a multipart upload; it is visible after its commit."""
        key = self._key(path)
        with self._translated(key):
            self._check_free(key)
            sink = self.filesystem.open_output_stream(key, compression=None)
        return S3Writer(self, path, sink)

    def delete(self, path: str) -> bool:
        """Removes an object."""
        key = self._key(path)
        with self._translated(key):
            try:
                self.filesystem.delete_file(key)
            except FileNotFoundError:
                return False
        return True

    def delete_many(self, paths: Sequence[str]) -> None:
        """Removes objects, several at once."""
        with ThreadPoolExecutor(_DELETE_THREADS) as pool:
            for _ in pool.map(self.delete, paths):
                pass

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """All objects in the folder `prefix`, by path."""
        folder = "/".join(part for part in (self._bucket, self._prefix, check_prefix(prefix)) if part)
        skipped = len(self.location) - len("s3://")
        with self._translated(folder):
            infos = self.filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True))
        found = [
            StoredObject(info.path[skipped:], info.size, (info.mtime_ns or 0) // 1_000_000)
            for info in infos
            if info.type == fs.FileType.File
        ]
        return iter(sorted(found, key=lambda object_: object_.path))

    def list_pages(self, page_size: int, pass_over: PassOver | None = None) -> Iterator[list[StoredObject]]:
        """All objects in pages. A listing of Arrow takes some 200 bytes per object until the last page."""
        folder = "/".join(part for part in (self._bucket, self._prefix) if part)
        skipped = len(self.location) - len("s3://")
        with self._translated(folder):
            infos = self.filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=True))
        found = (
            StoredObject(info.path[skipped:], info.size, (info.mtime_ns or 0) // 1_000_000)
            for info in infos
            if info.type == fs.FileType.File
        )
        return to_pages(found, page_size)

    def delete_empty_folders(self) -> None:
        """Does nothing: a bucket has no folders of its own."""

    def size(self, path: str) -> int:
        """An object's size in bytes."""
        key = self._key(path)
        with self._translated(key):
            info = self.filesystem.get_file_info(key)
        if info.type != fs.FileType.File:
            raise NotFound(f"Object s3://{key} does not exist.", reason="FILE_NOT_FOUND", metadata={"path": key})
        return int(info.size)

    def _check_free(self, key: str) -> None:
        if self.filesystem.get_file_info(key).type != fs.FileType.NotFound:
            raise AlreadyExists(f"Object s3://{key} exists already and is never overwritten.")

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

    @contextlib.contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise translate_s3_error(error, key) from None


class S3Writer:
    """An object during its upload.

    Args:
        store: The store of the object.
        path: Its path in the store.
        sink: The upload.
    """

    def __init__(self, store: S3Store, path: str, sink: pa.NativeFile) -> None:
        self._store = store
        self._path = path
        self._sink = sink
        self._ended = False

    @property
    def sink(self) -> pa.NativeFile:
        """The stream for its bytes; parts are uploaded in the background."""
        return self._sink

    def commit(self) -> int:
        """Completes the upload, and returns the object's size."""
        with self._store._translated(self._store._key(self._path)):
            size_bytes = int(self._sink.tell())
            self._sink.close()
        self._ended = True
        return size_bytes

    def abort(self) -> None:
        """Ends the upload and removes the object: pyarrow can only complete an upload, not abort it."""
        if self._ended:
            return
        self._ended = True
        with contextlib.suppress(OSError, pa.ArrowException):
            self._sink.close()
        with contextlib.suppress(LakelogError):
            self._store.delete(self._path)


def translate_s3_error(error: BaseException, key: str) -> LakelogError:
    """Returns the lakelog error for S3's error on an object.

    Only Amazon's own error code is repeated: the texts may contain request headers.
    """
    found = _ERROR_CODE.search(str(error))
    code = found.group(1) if found else type(error).__name__
    metadata = {"path": key, "code": code}
    if isinstance(error, FileNotFoundError) or code in ("NO_SUCH_KEY", "NO_SUCH_BUCKET", "RESOURCE_NOT_FOUND"):
        return NotFound(f"Object s3://{key} or its bucket does not exist.", reason="FILE_NOT_FOUND", metadata=metadata)
    if code in _DENIED or isinstance(error, PermissionError):
        return PermissionDenied(
            f"S3 refuses access to s3://{key} ({code}): check the credentials (LAKELOG_S3_* or AWS_*) and rights.",
            metadata=metadata,
        )
    return Unavailable(
        f"S3 cannot be reached for s3://{key} ({code}): check endpoint, region and network.", metadata=metadata
    )
