"""What a server expects of signed tokens, and where the keys of their issuer are. Needs no library for tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TokenRules:
    """What this server expects of tokens.

    Args:
        issuer: The claim `iss`, exactly.
        audience: The claim `aud`, or one of its values.
        name_claim: The claim with the caller's name.
        role_claim: The claim with the caller's role; None: tokens have none.
    """

    issuer: str
    audience: str
    name_claim: str = "sub"
    role_claim: str | None = None


@dataclass(frozen=True)
class KeySource:
    """Where the keys of an issuer are.

    Args:
        url: https://, or http:// to a loopback address; None: they are in a file.
        file: A JWKS or a PEM file; None: they are at a URL.
        ca: Certificates that must have signed that of the URL's server; None: those of the system.
        token_file: A token that is sent to the URL is in this file; None: none is sent.
    """

    url: str | None = None
    file: Path | None = None
    ca: Path | None = None
    token_file: Path | None = None

    def __str__(self) -> str:
        return self.url or str(self.file)
