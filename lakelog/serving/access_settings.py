"""How a server identifies callers, as it is configured: which files and keys, and what they mean together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.errors import InvalidArgument
from lakelog.serving.access import Access, TokenFile, parse_token_file
from lakelog.serving.rotation.watched import NamedFile
from lakelog.serving.signed_tokens.rules import KeySource, TokenRules

if TYPE_CHECKING:
    from lakelog.serving.access import SignedTokenReader


@dataclass(frozen=True)
class SignedSettings:
    """Signed tokens that are taken.

    Args:
        rules: What is expected of them.
        keys: Where the keys of their issuer are.
    """

    rules: TokenRules
    keys: KeySource


@dataclass(frozen=True)
class AccessSettings:
    """The ways in.

    Args:
        open: Every caller may do everything; excludes the others.
        token_file: The file with tokens and roles; None: none.
        takes_certificates: Clients show certificates.
        any_certificate: Every verified certificate has the role admin.
        signed: Signed tokens; None: none are taken.
    """

    open: bool = False
    token_file: Path | None = None
    takes_certificates: bool = False
    any_certificate: bool = False
    signed: SignedSettings | None = None

    @property
    def named_token_file(self) -> NamedFile | None:
        """The token file, with its name for messages."""
        return None if self.token_file is None else NamedFile(self.token_file, "token-file", "token file")

    def load_token_file(self) -> TokenFile:
        """Reads the token file; without one it lists no caller.

        Raises:
            InvalidArgument: It cannot be read or used, or needs a setting that is not given.
        """
        file = self.named_token_file
        return TokenFile() if file is None else self.parse_token_file(file.read())

    def parse_token_file(self, data: bytes) -> TokenFile:
        """The callers in the content of the token file. Pure.

        Raises:
            InvalidArgument: It cannot be used, or needs a setting that is not given.
        """
        file = self.named_token_file
        assert file is not None
        try:
            listed = parse_token_file(data.decode(), str(file.path))
        except UnicodeDecodeError:
            raise file.refuse("cannot be read: it is not UTF-8 text") from None
        if listed.certificates and not self.takes_certificates:
            raise InvalidArgument(
                f"The {file} has entries for certificates, which need --tls-client-ca.",
                metadata={"field": "tls-client-ca"},
            )
        if listed.signed_roles and self.signed is None:
            raise InvalidArgument(
                f"The {file} has entries for signed tokens, which need --token-keys.", metadata={"field": "token-keys"}
            )
        return listed

    def to_access(self, listed: TokenFile, signed_tokens: SignedTokenReader | None) -> Access:
        """What identifies callers.

        Args:
            listed: The content of the token file.
            signed_tokens: Verifies signed tokens; None: none are taken.
        """
        return Access(
            open=self.open,
            tokens=listed.tokens,
            certificates=listed.certificates,
            any_certificate=self.any_certificate,
            signed_tokens=signed_tokens,
            signed_roles=listed.signed_roles,
        )
