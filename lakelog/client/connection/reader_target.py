"""Where the reader services are, and how to talk to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakelog.client.connection.target import Target, TlsFiles, check_token, parse_target
from lakelog.client.connection.tokens import Token
from lakelog.errors import InvalidArgument


@dataclass(frozen=True)
class ReaderTarget:
    """One or more replicas of the reader service. Picklable.

    Args:
        targets: Where they are; any of them can be used. Empty: there is no service.
        tls: Files for TLS; None: plaintext.
        token: Sent as `authorization: Bearer`; a file is read again when it changes; None: none.
    """

    targets: tuple[Target, ...]
    tls: TlsFiles | None = None
    token: Token | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return ",".join(map(str, self.targets))

    def resolve(self, text: str | None) -> ReaderTarget | None:
        """The service to use where a caller may name one; None: no service. Pure.

        Args:
            text: As in `parse_reader_targets`; empty: no service; None: this service.

        Raises:
            InvalidArgument: As `parse_reader_targets`.
        """
        if text is None:
            return self if self.targets else None
        if not isinstance(text, str):
            raise InvalidArgument(
                f"reader={text!r:.80} is no text: give host:port, or several apart by commas.",
                metadata={"field": "reader"},
            )
        return parse_reader_targets(text, tls=self.tls, token=self.token) if text else None


def parse_reader_targets(text: str, *, tls: TlsFiles | None, token: Token | None) -> ReaderTarget:
    """Reads `host:port`, or several of them with commas between. Pure.

    Raises:
        InvalidArgument: One is malformed, or the token must not be sent there.
    """
    try:
        targets = tuple(parse_target(part.strip()) for part in text.split(",") if part.strip())
    except InvalidArgument as error:
        raise InvalidArgument(f"reader: {error.message}", metadata={"field": "reader"}) from error
    if not targets:
        raise InvalidArgument(
            f"reader={text!r:.80} names no reader service: give host:port, or several apart by commas.",
            metadata={"field": "reader"},
        )
    for target in targets:
        check_token(token, target, tls=tls is not None)
    return ReaderTarget(tuple(dict.fromkeys(targets)), tls, token)
