"""Who may do what: roles, callers, and the role that each RPC needs. Denies by default.

1. A caller is known by a bearer token or by the common name of a verified client certificate.
2. A caller has one role; each role may do all that the ones below it may.
3. An RPC that `NEEDED_ROLES` does not list is refused to everyone; a test fails when one is missing there.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lakelog.client.status import UNAUTHENTICATED
from lakelog.errors import InvalidArgument, PermissionDenied


class Role(enum.IntEnum):
    """What a caller may do."""

    READER = 1
    """Read tables, plans and snapshots, and watch."""
    WRITER = 2
    """Change rows: stage, commit, hold leases, report."""
    ADMIN = 3
    """Say what databases and tables there are, and change their options."""


_CATALOG: Final = "/lakelog.rpc.v1.CatalogService/"
_SNAPSHOTS: Final = "/lakelog.rpc.v1.SnapshotService/"
_JOBS: Final = "/lakelog.rpc.v1.JobService/"
_CONSUMERS: Final = "/lakelog.rpc.v1.ConsumerService/"

NEEDED_ROLES: Final[Mapping[str, Role | None]] = {
    f"{_CATALOG}CreateDatabase": Role.ADMIN,
    f"{_CATALOG}ListDatabases": Role.READER,
    f"{_CATALOG}DropDatabase": Role.ADMIN,
    f"{_CATALOG}CreateTable": Role.ADMIN,
    f"{_CATALOG}GetTable": Role.READER,
    f"{_CATALOG}ListTables": Role.READER,
    f"{_CATALOG}AlterTable": Role.ADMIN,
    f"{_CATALOG}DropTable": Role.ADMIN,
    f"{_CATALOG}ListSchemas": Role.READER,
    f"{_SNAPSHOTS}StageAttempt": Role.WRITER,
    f"{_SNAPSHOTS}AbandonAttempt": Role.WRITER,
    f"{_SNAPSHOTS}RegisterWriter": Role.WRITER,
    f"{_SNAPSHOTS}GetWriterProgress": Role.READER,
    f"{_SNAPSHOTS}Commit": Role.WRITER,
    f"{_SNAPSHOTS}CommitStream": Role.WRITER,
    f"{_SNAPSHOTS}ListSnapshots": Role.READER,
    f"{_SNAPSHOTS}Plan": Role.READER,
    f"{_SNAPSHOTS}Watch": Role.READER,
    f"{_JOBS}AcquireLease": Role.WRITER,
    f"{_JOBS}RenewLease": Role.WRITER,
    f"{_JOBS}ReleaseLease": Role.WRITER,
    f"{_JOBS}ReportPipeline": Role.WRITER,
    f"{_JOBS}ListPipelines": Role.READER,
    f"{_JOBS}ForgetPipeline": Role.ADMIN,
    f"{_CONSUMERS}OpenConsumer": Role.READER,
    f"{_CONSUMERS}AdvanceConsumer": Role.READER,
    f"{_CONSUMERS}ListConsumers": Role.READER,
    f"{_CONSUMERS}ResetConsumer": Role.WRITER,
    f"{_CONSUMERS}DeleteConsumer": Role.WRITER,
    # Probes of load balancers carry no token; the answer is one word.
    "/grpc.health.v1.Health/Check": None,
    "/grpc.health.v1.Health/List": None,
    "/grpc.health.v1.Health/Watch": None,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Role.READER,
}
"""The role that each RPC needs; None: open to everyone. Those that need more than READER have an effect."""


@dataclass(frozen=True)
class Caller:
    """Who calls."""

    name: str
    role: Role


ANYONE: Final = Caller("anyone", Role.ADMIN)
"""Every caller of a server that asks nobody who they are; only possible on loopback."""


@dataclass(frozen=True)
class TokenEntry:
    """A caller with the SHA-256 of the bearer token that shows it is them."""

    caller: Caller
    digest: bytes


@dataclass(frozen=True)
class Access:
    """How callers are recognized.

    Args:
        open: Everyone may do everything; excludes the others.
        tokens: Accepted bearer tokens.
        certificates: Roles by the common name of a verified client certificate.
        any_certificate: Every verified certificate is an admin's: the signing CA is for this service alone.
    """

    open: bool = False
    tokens: tuple[TokenEntry, ...] = ()
    certificates: Mapping[str, Role] = field(default_factory=dict)
    any_certificate: bool = False

    def recognize(self, authorization: str | None, common_name: str | None) -> Caller:
        """Finds out who calls. Pure; its time does not tell how much of a token was right.

        Args:
            authorization: The header of that name; None: absent.
            common_name: Of the verified client certificate; None: none.

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
        # All are compared, each in constant time.
        for entry in self.tokens:
            if hmac.compare_digest(entry.digest, digest):
                found = entry.caller
        if found is None:
            raise _unauthenticated("The token is not known here. Was it revoked, or is it another metastore's?")
        return found


def check_allowed(method: str, caller: Caller) -> None:
    """Refuses what a caller's role does not allow.

    Args:
        method: The RPC's full name, `/package.Service/Method`.
        caller: Who calls.

    Raises:
        PermissionDenied: The role is too low, or the RPC is not listed in `NEEDED_ROLES`.
    """
    if method not in NEEDED_ROLES:
        raise PermissionDenied(f"{method} is open to no role.", metadata={"method": method})
    needed = NEEDED_ROLES[method]
    if needed is not None and caller.role < needed:
        raise PermissionDenied(
            f"{caller.name} has the role {caller.role.name.lower()}, but {method.rpartition('/')[2]} needs "
            f"{needed.name.lower()}. Ask an operator for a token with that role.",
            metadata={"caller": caller.name, "role": caller.role.name.lower(), "needed": needed.name.lower()},
        )


_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,128}")
_MIN_TOKEN_CHARACTERS: Final = 16


def parse_token_file(text: str, path: str) -> tuple[tuple[TokenEntry, ...], dict[str, Role]]:
    """Reads a token file: a line `<name> <role> <token>`, or `<name> <role> cert` for a client certificate, each.

    The roles are `reader`, `writer`, `admin`; empty lines and those that begin with `#` are skipped; for `cert` the
    name is the certificate's common name. One name may have several tokens, so that they can be changed without a gap.

    Args:
        text: The file's content.
        path: Where it was, for errors.

    Returns:
        Tokens in the file's order, and roles by common name.

    Raises:
        InvalidArgument: A line is malformed, the same token stands there twice, or the file lists nobody. Messages name
            the line and show no token.
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
            raise _bad_line(path, number, f"gives {name} an unknown role", "Use reader, writer or admin")
        if secret == "cert":
            certificates[name] = role
            continue
        if len(secret) < _MIN_TOKEN_CHARACTERS:
            remedy = f"Use at least {_MIN_TOKEN_CHARACTERS} random characters (openssl rand -hex 32)"
            raise _bad_line(path, number, f"has a token for {name} that is too short", remedy)
        digest = hashlib.sha256(secret.encode()).digest()
        if digest in tokens:
            raise _bad_line(path, number, f"repeats the token of {tokens[digest].caller.name}", "Give each its own")
        tokens[digest] = TokenEntry(Caller(name, role), digest)
    if not tokens and not certificates:
        raise InvalidArgument(f"The token file {path} lists nobody. Write a line `<name> <role> <token>`.")
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
