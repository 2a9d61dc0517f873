"""Files whose new content a running server takes into use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from lakelog.errors import InvalidArgument

T = TypeVar("T")

MOST_BYTES: Final = 4 << 20
"""Of a file. A token file with 10,000 callers has one MiB."""


class Watched(Protocol):
    """Something that can change while the server runs."""

    name: str
    """The setting that says where it is, for lines of the log and for metrics."""

    on_want: Callable[[], None]
    """To be called, on the event loop, when it should be looked at soon."""

    def load(self) -> None:
        """Takes what is there into use, at the start.

        Raises:
            LakelogError: It cannot be read or used.
        """
        ...

    def look(self) -> Callable[[], None] | None:
        """Whether there is something new. Blocks; runs in a thread, never twice at once.

        Returns:
            What takes it into use, to be called on the event loop; None: nothing is new.

        Raises:
            LakelogError: What is new cannot be used. It is not raised again for the same content.
        """
        ...

    def find_warning(self) -> str | None:
        """What an operator must know of what is in use now, though it can be used; None: nothing."""
        ...


@dataclass(frozen=True)
class NamedFile:
    """A file that a setting names.

    Args:
        path: Where it is.
        setting: The setting's name, without the leading dashes.
        what: What it is, for messages.
    """

    path: Path
    setting: str
    what: str

    def __str__(self) -> str:
        # A user may have given a secret itself instead of its file; an absolute path is no secret.
        return f"{self.what} {self.path}" if self.path.is_absolute() else self.what

    def read(self) -> bytes:
        """Its content.

        Raises:
            InvalidArgument: It cannot be read, or is too large.
        """
        try:
            with self.path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise self.refuse(f"cannot be read: {error.strerror}") from None
        if len(data) > MOST_BYTES:
            raise self.refuse(f"has more than {MOST_BYTES} bytes")
        return data

    def refuse(self, problem: str) -> InvalidArgument:
        """The error for a file that cannot be used."""
        return InvalidArgument(f"The {self} {problem} (--{self.setting}).", metadata={"field": self.setting})


class WatchedFiles(Generic[T]):
    """Some files that are used together, such as a certificate and its key.

    It compares contents, because a folder of Kubernetes' secrets changes by a link above the files.

    Args:
        name: The setting.
        files: The files.
        prepare: Makes of their contents what is used, or raises InvalidArgument. Runs in a thread.
        use: Takes that into use. Runs on the event loop.
        find_warning: As of `Watched`.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[NamedFile],
        prepare: Callable[[Sequence[bytes]], T],
        use: Callable[[T], None],
        find_warning: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.name = name
        self._find_warning = find_warning
        self.on_want: Callable[[], None] = lambda: None
        self._files = tuple(files)
        self._prepare = prepare
        self._use = use
        self._seen: bytes | None = None

    def load(self) -> None:
        """Takes the present contents into use.

        Raises:
            InvalidArgument: They cannot be used.
        """
        change = self.look()
        if change is not None:
            change()

    def find_warning(self) -> str | None:
        """As `Watched`."""
        return self._find_warning()

    def look(self) -> Callable[[], None] | None:
        """As `Watched`."""
        try:
            contents = [file.read() for file in self._files]
        except InvalidArgument as error:
            if self._is_new(b"error", error.message.encode()):
                raise
            return None
        if not self._is_new(*contents):
            return None
        found = self._prepare(contents)
        return lambda: self._use(found)

    def _is_new(self, *contents: bytes) -> bool:
        # Not the contents themselves: a secret is held for no longer than necessary.
        digest = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).digest()
        if digest == self._seen:
            return False
        self._seen = digest
        return True
