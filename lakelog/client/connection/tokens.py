"""The token that identifies a caller: a text, or a file that is replaced before the token in it expires.

Kubernetes writes a new token for a service account every hour, and so do agents of other issuers. So the token of a
file is asked for with each call, and the file is read again when it has changed.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Final, TypeAlias

from lakelog.errors import InvalidArgument
from lakelog.privacy.redaction import remember_secret

TOKEN: Final = re.compile(r"[\x21-\x7e]{1,8192}")
"""What a header can hold, and the server takes."""

_LOOK_EVERY_S: Final = 1.0
"""Between two looks at a file: a look at each call would cost a system call each."""


class FileToken:
    """A token in a file. Threads may share it; it pickles as its path.

    A file that is missing, or holds no token, while a token is known changes nothing: the file is probably being
    replaced. If it is not, the server refuses the old token once that has expired.

    Args:
        path: Where it is.
        origin: What names the path, for messages; empty: an argument or the environment.
    """

    def __init__(self, path: str | os.PathLike[str], origin: str = "") -> None:
        # A service may change its working directory.
        self.path: Final = os.path.abspath(path)
        self.origin: Final = origin
        self._token: str | None = None
        self._seen: tuple[int, int, int] | None = None
        self._looked_at_s = 0.0

    def __reduce__(self) -> tuple[object, ...]:
        return (FileToken, (self.path, self.origin))

    def __repr__(self) -> str:
        return f"FileToken({self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileToken) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def current(self) -> str:
        """The token as it is now. Blocks for a read at most once a second.

        Raises:
            InvalidArgument: There has been no token in the file yet.
        """
        now_s = time.monotonic()
        token = self._token
        if token is not None and now_s - self._looked_at_s < _LOOK_EVERY_S:
            return token
        self._looked_at_s = now_s
        try:
            return self._read()
        except InvalidArgument:
            if token is None:
                raise
            return token

    def is_newer_than(self, token: str) -> bool:
        """Whether the file holds another token now; looks at once. For a token that was refused."""
        self._looked_at_s = time.monotonic() - _LOOK_EVERY_S
        try:
            return self.current() != token
        except InvalidArgument:
            return False

    def _read(self) -> str:
        try:
            found = os.stat(self.path)
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
            if self._token is not None and seen == self._seen:
                return self._token
            text = Path(self.path).read_text("ascii").strip()
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise self._unusable("is not ASCII text") from None
        if not TOKEN.fullmatch(text):
            raise self._unusable("does not hold one token of 1 to 8192 printable ASCII characters without a space")
        # Before it is sent, so that no error of the call can show it.
        remember_secret(text)
        self._token, self._seen = text, seen
        return text

    def _unusable(self, problem: str) -> InvalidArgument:
        origin = self.origin or "token_file=, --token-file or LAKELOG_TOKEN_FILE"
        return InvalidArgument(f"The token file {self.path} {problem} ({origin}).", metadata={"field": "token_file"})


_BEARER: Final = "Bearer "

Token: TypeAlias = str | FileToken
"""A token, or the file that holds it."""


def to_metadata(token: Token | None) -> tuple[tuple[str, str], ...]:
    """The headers of a call that identify its caller.

    Raises:
        InvalidArgument: The token's file cannot be used.
    """
    if token is None:
        return ()
    return (("authorization", f"{_BEARER}{token.current() if isinstance(token, FileToken) else token}"),)


def is_outdated(metadata: tuple[tuple[str, str], ...], token: Token | None) -> bool:
    """Whether headers have an older token than the file holds now, so that a refused call is worth another try."""
    return isinstance(token, FileToken) and token.is_newer_than(
        dict(metadata).get("authorization", "").removeprefix(_BEARER)
    )
