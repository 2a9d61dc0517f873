"""Identifies callers; each has one role, which may do all that the ones below it may.

A caller is identified by a bearer token of the token file, by a signed token, or by the common name of a verified
client certificate. Names of signed tokens begin with `signed:`. Names in the token file have no colon, so no issuer can
give a caller a name of the token file, or the work that such a name owns.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.errors import InvalidArgument, PermissionDenied
from lakelog.format.tables.grant import SignIn


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
    """The identity and the role of a caller.

    Args:
        name: What owns the things that the caller opens.
        role: What it may do.
        until_s: When this ends, in seconds since 1970; None: with the configuration of the server.
        sign_in: How it was identified.
    """

    name: str
    role: Role
    until_s: float | None = None
    sign_in: SignIn = field(default=SignIn.TOKEN, compare=False)


ANYONE: Final = Caller("anyone", Role.ADMIN, sign_in=SignIn.NONE)
"""Every caller of a server that identifies no one; only possible on loopback."""


@dataclass(frozen=True)
class TokenEntry:
    """A caller, with the SHA-256 of the bearer token that identifies it."""

    caller: Caller
    digest: bytes = field(repr=False)


@dataclass(frozen=True)
class SignedCaller:
    """What a verified token says.

    Args:
        name: The caller's name, as its issuer has it.
        role: Its role; None: the token has none.
        until_s: From then on the token is refused, in seconds since 1970.
    """

    name: str
    role: Role | None
    until_s: float


class SignedTokenReader(Protocol):
    """Verifies signed tokens. Most servers have none, and then need no code for it."""

    def recall(self, token: str) -> SignedCaller | None:
        """Who the caller is, if this token was verified before; costs little."""
        ...

    def recognize(self, token: str, address: str = "") -> SignedCaller:
        """Who the caller is.

        Args:
            token: What the caller has sent.
            address: The peer, whose failures are counted; empty: they are not.

        Raises:
            PermissionDenied: With reason UNAUTHENTICATED.
            Unavailable: The address has sent too many wrong tokens.
        """
        ...


@dataclass(frozen=True)
class Access:
    """How a server identifies callers.

    Args:
        open: Every caller may do everything; excludes the others.
        tokens: Accepted bearer tokens.
        certificates: Roles by the common name of a verified client certificate.
        any_certificate: Every verified certificate has the role admin: its CA signs for this service alone.
        signed_tokens: Verifies signed tokens; None: there are none.
        signed_roles: Roles by the name that a signed token has; they win over the token's own. Without either: user.
    """

    open: bool = False
    tokens: tuple[TokenEntry, ...] = ()
    certificates: Mapping[str, Role] = field(default_factory=dict)
    any_certificate: bool = False
    signed_tokens: SignedTokenReader | None = None
    signed_roles: Mapping[str, Role] = field(default_factory=dict)
    _by_digest: Mapping[bytes, Caller] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_digest", {entry.digest: entry.caller for entry in self.tokens})

    @property
    def takes_certificates(self) -> bool:
        """Whether a call without a token can come from a known caller."""
        return self.any_certificate or bool(self.certificates)

    def recall(self, authorization: str) -> Caller | None:
        """Identifies a caller as `recognize` does, if no signature has to be verified for that; else None.

        Args:
            authorization: The header of that name.
        """
        if self.open:
            return ANYONE
        try:
            token = _token_of(authorization)
        except PermissionDenied:
            return None
        found = self._listed(token)
        if found is None and self.signed_tokens is not None and "." in token:
            signed = self.signed_tokens.recall(token)
            found = None if signed is None else self._to_caller(signed)
        return found

    def recognize(self, authorization: str | None, common_name: str | None, address: str = "") -> Caller:
        """Identifies the caller. Its duration does not reveal how much of a token was right.

        Args:
            authorization: The header of that name; None: absent.
            common_name: The name in the verified client certificate; None: none.
            address: The peer, whose wrong signed tokens are counted; empty: they are not.

        Raises:
            PermissionDenied: With reason UNAUTHENTICATED.
            Unavailable: The address has sent too many wrong signed tokens.
        """
        if self.open:
            return ANYONE
        if authorization is not None:
            return self._of_token(authorization, address)
        if common_name is not None:
            if self.any_certificate:
                return Caller(common_name, Role.ADMIN, sign_in=SignIn.CERTIFICATE)
            role = self.certificates.get(common_name)
            if role is not None:
                return Caller(common_name, role, sign_in=SignIn.CERTIFICATE)
            raise _unauthenticated(f"The certificate of {common_name} is valid but no role is given to that name.")
        if not self.tokens and self.signed_tokens is None:
            raise _unauthenticated("The call came without a client certificate.")
        raise _unauthenticated(
            "The call has no token. Set the token when connecting, or LAKELOG_TOKEN or LAKELOG_TOKEN_FILE; of a "
            "catalog that LAKELOG_CATALOGS names, token_file in its entry."
        )

    def _listed(self, token: str) -> Caller | None:
        # A look-up may take longer for a digest that is similar to a listed one. That is of no use: someone who guesses
        # tokens does not choose their digests, and a digest does not lead to its token.
        return self._by_digest.get(hashlib.sha256(token.encode()).digest())

    def _of_token(self, authorization: str, address: str) -> Caller:
        token = _token_of(authorization)
        found = self._listed(token)
        if found is not None:
            return found
        if self.signed_tokens is None or "." not in token:
            raise _unauthenticated("The token is not known here. Was it revoked, or is it another metastore's?")
        return self._to_caller(self.signed_tokens.recognize(token, address))

    def _to_caller(self, signed: SignedCaller) -> Caller:
        role = self.signed_roles.get(signed.name, signed.role)
        known_role = Role.USER if role is None else role
        return Caller(f"{SIGNED}{signed.name}", known_role, signed.until_s, SignIn.SIGNED_TOKEN)


SIGNED: Final = "signed:"
"""The names of callers with signed tokens begin so."""

SIGNED_NAME: Final = re.compile(r"[A-Za-z0-9_.@:|/+=~-]{1,240}")
"""Names in signed tokens: Kubernetes' `system:serviceaccount:ns:name`, and the subjects of OIDC providers."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,128}")
_MIN_TOKEN_CHARACTERS: Final = 16


@dataclass(frozen=True)
class TokenFile:
    """The callers that a token file lists.

    Args:
        tokens: Tokens, in the file's order.
        certificates: Roles by the common name of a client certificate.
        signed_roles: Roles by the name that a signed token has.
    """

    tokens: tuple[TokenEntry, ...] = ()
    certificates: Mapping[str, Role] = field(default_factory=dict)
    signed_roles: Mapping[str, Role] = field(default_factory=dict)


def parse_token_file(text: str, path: str) -> TokenFile:
    """Reads a token file. Each line is `<name> <role> <token>`, with `cert` or `signed` for callers without one.

    The roles are `user`, `reader`, `writer`, `admin`; empty lines and lines that begin with `#` are skipped. For `cert`
    the name is the certificate's common name, for `signed` the name in a signed token. One name may have several
    tokens, so that they can be changed without a gap.

    Raises:
        InvalidArgument: A line is malformed, a token occurs twice, or the file lists no caller. Messages name the line
            and show no word of it: if the words are in the wrong order, any of them can be the token.
    """
    tokens: dict[bytes, TokenEntry] = {}
    certificates: dict[str, Role] = {}
    signed_roles: dict[str, Role] = {}
    for number, line in _entries(text):
        words = line.split()
        if len(words) != 3:
            raise _bad_line(path, number, f"has {len(words)} words, not 3", "Write `<name> <role> <token>`")
        name, role_name, secret = words
        is_signed = secret == "signed"
        if not (SIGNED_NAME if is_signed else _NAME).fullmatch(name):
            allowed = "240 of A-Z a-z 0-9 _ . @ : | / + = ~ -" if is_signed else "128 of A-Z a-z 0-9 _ . @ -"
            raise _bad_line(path, number, "has a malformed name", f"Use up to {allowed}")
        role = next((role for role in Role if role.name.lower() == role_name), None)
        if role is None:
            raise _bad_line(path, number, "gives an unknown role", "Use user, reader, writer or admin")
        if is_signed or secret == "cert":
            (signed_roles if is_signed else certificates)[name] = role
            continue
        if len(secret) < _MIN_TOKEN_CHARACTERS:
            remedy = f"Use at least {_MIN_TOKEN_CHARACTERS} random characters (openssl rand -hex 32)"
            raise _bad_line(path, number, "has a token that is too short", remedy)
        digest = hashlib.sha256(secret.encode()).digest()
        if digest in tokens:
            raise _bad_line(path, number, f"repeats the token of {tokens[digest].caller.name}", "Give each its own")
        tokens[digest] = TokenEntry(Caller(name, role), digest)
    if not tokens and not certificates and not signed_roles:
        raise InvalidArgument(
            f"The token file {path} lists no caller. Write a line `<name> <role> <token>`.",
            metadata={"field": "token-file"},
        )
    return TokenFile(tuple(tokens.values()), certificates, signed_roles)


def _token_of(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise _unauthenticated("The header `authorization` is not of the form `Bearer <token>`.")
    return token


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
