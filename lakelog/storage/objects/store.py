"""The object store of lakelog: whole objects under one location, made once and never changed.

What belongs here: the protocol; `lakelog.format.tables.paths` has the rule for paths. Implementations are `local.py`,
`s3.py` and `memory.py`, and `stores.py` chooses one by location; one contract suite (`tests/contract/storage`) runs
over all of them. They translate foreign errors, so callers see only those of `lakelog.errors`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

import pyarrow as pa

from lakelog.errors import INVALID_PATH, InvalidArgument, LakelogError
from lakelog.format.tables.paths import PATH_RULE, is_path

MOST_ATTEMPTS: Final = 20
LONGEST_TIMEOUT_S: Final = 3600


@dataclass(frozen=True)
class StoredObject:
    """An object that a listing found.

    Args:
        path: Relative to the location.
        size_bytes: Its size.
        modified_ms: When it was last written.
        is_link: It is a symbolic link, to a file or a folder. No listing follows it, and a delete removes only it.
    """

    path: str
    size_bytes: int
    modified_ms: int
    is_link: bool = False


PassOver: TypeAlias = Callable[[str, LakelogError], None]


class ObjectWriter(Protocol):
    """An object during its write; exactly one of `commit` and `abort` ends it."""

    @property
    def sink(self) -> pa.NativeFile:
        """The stream for its bytes, in order."""
        ...

    def commit(self) -> int:
        """Makes the object durable; blocks until it is, and returns its size in bytes."""
        ...

    def abort(self) -> None:
        """Removes what was written; idempotent, does nothing after `commit`, and never raises."""
        ...


class ObjectStore(Protocol):
    """Objects under one location. All methods block and may be called from several threads; stores pickle.

    Paths are relative to the location (`check_path`). Every method raises InvalidArgument for any other path,
    PermissionDenied if the store refuses, and Unavailable if it cannot be reached. Listings and deletes never leave the
    location: a symbolic link on the way is PermissionDenied too.
    """

    @property
    def location(self) -> str:
        """The absolute URI that all paths are relative to; ends with a slash and holds no secret."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Opens an object for random access; NotFound names it. The caller closes it."""
        ...

    def create(self, path: str) -> ObjectWriter:
        """Begins a new object; raises AlreadyExists if there is one, which stays unchanged."""
        ...

    def delete(self, path: str) -> bool:
        """Removes an object; returns False if there was none. Idempotent."""
        ...

    def delete_many(self, paths: Sequence[str]) -> None:
        """Removes objects; missing ones are no error. Idempotent."""
        ...

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """All objects in the folder `prefix` and below it, by path; none if there is no such folder."""
        ...

    def list_pages(self, page_size: int, pass_over: PassOver | None = None) -> Iterator[list[StoredObject]]:
        """All objects of the location in pages, in no order, so that millions need little memory.

        Objects that are made or deleted meanwhile may or may not be included. Objects whose names `check_path` refuses,
        which other programs have put there, are left out.

        Args:
            page_size: The most objects of a page.
            pass_over: Called with each folder that cannot be read, and the reason; None: the listing fails there.
        """
        ...

    def delete_empty_folders(self) -> None:
        """Removes the folders without objects, including the location's own, if the store has folders at all."""
        ...

    def size(self, path: str) -> int:
        """An object's size in bytes; NotFound names it."""
        ...


KeyChoice: TypeAlias = Literal["auto", "own", "vended"]


@dataclass(frozen=True)
class S3Settings:
    """How to reach S3. The AWS SDK's own rules (profile, instance metadata ...) replace values that are None.

    Args:
        endpoint: URL of a store that is not Amazon's, for instance `http://127.0.0.1:8333`.
        region: The bucket's region.
        access_key_id: With `secret_access_key`; both or none.
        secret_access_key: Never shown.
        session_token: For temporary credentials; never shown.
        attempts: How often a request is made, before its error counts.
        timeout_s: How long a call may take with all of its requests; one that moves many bytes has more time.
        credentials: Which keys are used for the files of tables. `own`: these here; `vended`: those that the metastore
            vends; `auto`: vended ones if there are none here, and if the metastore vends any.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    attempts: int = 7
    timeout_s: float = 120.0
    credentials: KeyChoice = "auto"


def check_path(path: str) -> str:
    """Checks that a path stays inside its location on every store, and returns it. Pure.

    Raises:
        InvalidArgument: `lakelog.format.tables.paths` refuses it.
    """
    if not is_path(path):
        raise InvalidArgument(
            f"Path {path[:200]!r} is not a path inside a table. {PATH_RULE}.",
            reason=INVALID_PATH,
            metadata={"field": "path", "value": path[:200]},
        )
    return path


def to_pages(found: Iterable[StoredObject], page_size: int) -> Iterator[list[StoredObject]]:
    """Objects in pages of at most this size, without names that `check_path` refuses."""
    named = (each for each in found if is_path(each.path))
    while page := list(itertools.islice(named, page_size)):
        yield page


def check_prefix(prefix: str) -> str:
    """Checks a folder's path as `check_path` does; removes a slash at its end; empty means the location."""
    return check_path(prefix.rstrip("/")) if prefix else ""
