"""Identifies callers: by a bearer token, or by the common name of a verified client certificate; each has one role.

Each role may do all that the ones below it may.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.errors import InvalidArgument, PermissionDenied


class Role(enum.IntEnum):
    """What a caller may do."""

    USER = 0
    """What grants allow, and nothing else."""
    READER = 1
    """Read tables, plans and snapshots, and watch."""
    WRITER = 2
    """Change rows: stage, commit, hold leases and jobs, report."""
    ADMIN = 3
    """Create and drop databases and tables, and change their options."""


@dataclass(frozen=True)
class Caller:
    """The identity and the role of a caller."""

    name: str
    role: Role


ANYONE: Final = Caller("anyone", Role.ADMIN)
"""Every caller of a server that identifies no one; only possible on loopback."""


@dataclass(frozen=True)
class TokenEntry:
    """A caller, with the SHA-256 of the bearer token that identifies it."""

    caller: Caller
    digest: bytes = field(repr=False)


@dataclass(frozen=True)
class Access:
    """How a server identifies callers.

    Args:
        open: Every caller may do everything; excludes the others.
        tokens: Accepted bearer tokens.
        certificates: Roles by the common name of a verified client certificate.
        any_certificate: Every verified certificate has the role admin: its CA signs for this service alone.
    """

    open: bool = False
    tokens: tuple[TokenEntry, ...] = ()
    certificates: Mapping[str, Role] = field(default_factory=dict)
    any_certificate: bool = False

    @property
    def takes_certificates(self) -> bool:
        """Whether a call without a token can come from a known caller."""
        return self.any_certificate or bool(self.certificates)

    def recognize(self, authorization: str | None, common_name: str | None) -> Caller:
        """Identifies the caller. Pure; its duration does not reveal how much of a token was right.

        Args:
            authorization: The header of that name; None: absent.
            common_name: The name in the verified client certificate; None: none.

        Raises:
            PermissionDenied: With reason UNAUTHENTICATED.
        """
        if self.open:
            return ANYONE
        if authorization is not None:
            return self._of_token(authorization)
        if common_name is not None:
            if self.any_certificate:
                return Caller(common_name, Role.ADMIN)
            role = self.certificates.get(common_name)
            if role is not None:
                return Caller(common_name, role)
            raise _unauthenticated(f"The certificate of {common_name} is valid but no role is given to that name.")
        if not self.tokens:
            raise _unauthenticated("The call came without a client certificate.")
        raise _unauthenticated("The call has no token. Set the token when connecting, or LAKELOG_TOKEN.")

    def _of_token(self, authorization: str) -> Caller:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _unauthenticated("The header `authorization` is not of the form `Bearer <token>`.")
        digest = hashlib.sha256(token.encode()).digest()
        found: Caller | None = None
        # Compares with all tokens, each in constant time.
        for entry in self.tokens:
            if hmac.compare_digest(entry.digest, digest):
                found = entry.caller
        if found is None:
            raise _unauthenticated("The token is not known here. Was it revoked, or is it another metastore's?")
        return found


_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,128}")
_MIN_TOKEN_CHARACTERS: Final = 16


def parse_token_file(text: str, path: str) -> tuple[tuple[TokenEntry, ...], dict[str, Role]]:
    """Reads a token file. Each line is `<name> <role> <token>`, or `<name> <role> cert` for a client certificate.

    The roles are `user`, `reader`, `writer`, `admin`; empty lines and lines that begin with `#` are skipped. For `cert`
    the name is the certificate's common name. One name may have several tokens, so that they can be changed without a
    gap.

    Returns:
        Tokens in the file's order, and roles by common name.

    Raises:
        InvalidArgument: A line is malformed, a token occurs twice, or the file lists no caller. Messages name the line
            and show no word of it: if the words are in the wrong order, any of them can be the token.
    """
    tokens: dict[bytes, TokenEntry] = {}
    certificates: dict[str, Role] = {}
    for number, line in _entries(text):
        words = line.split()
        if len(words) != 3:
            raise _bad_line(path, number, f"has {len(words)} words, not 3", "Write `<name> <role> <token>`")
        name, role_name, secret = words
        if not _NAME.fullmatch(name):
            raise _bad_line(path, number, "has a malformed name", "Use up to 128 of A-Z a-z 0-9 _ . @ -")
        role = next((role for role in Role if role.name.lower() == role_name), None)
        if role is None:
            raise _bad_line(path, number, "gives an unknown role", "Use user, reader, writer or admin")
        if secret == "cert":
            certificates[name] = role
            continue
        if len(secret) < _MIN_TOKEN_CHARACTERS:
            remedy = f"Use at least {_MIN_TOKEN_CHARACTERS} random characters (openssl rand -hex 32)"
            raise _bad_line(path, number, "has a token that is too short", remedy)
        digest = hashlib.sha256(secret.encode()).digest()
        if digest in tokens:
            raise _bad_line(path, number, f"repeats the token of {tokens[digest].caller.name}", "Give each its own")
        tokens[digest] = TokenEntry(Caller(name, role), digest)
    if not tokens and not certificates:
        raise InvalidArgument(f"The token file {path} lists no caller. Write a line `<name> <role> <token>`.")
    return tuple(tokens.values()), certificates


def _entries(text: str) -> Iterable[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _bad_line(path: str, number: int, problem: str, remedy: str) -> InvalidArgument:
    return InvalidArgument(
        f"Line {number} of the token file {path} {problem}. {remedy}.", metadata={"field": "token-file"}
    )


def _unauthenticated(message: str) -> PermissionDenied:
    return PermissionDenied(message, reason=UNAUTHENTICATED)
