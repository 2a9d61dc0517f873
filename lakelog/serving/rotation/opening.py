"""Opens what a server needs for TLS, if it has TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakelog.clock import Clock
from lakelog.serving.listening import ServerTls

if TYPE_CHECKING:
    from .live_tls import LiveTls


def open_tls(tls: ServerTls | None, clock: Clock) -> LiveTls | None:
    """The TLS of a server, which follows its files; None for plaintext.

    Raises:
        InvalidArgument: A file cannot be used.
    """
    if tls is None:
        return None
    # Not above: it needs a library of 11 MiB, which a server without TLS need not have in memory.
    from .live_tls import LiveTls

    return LiveTls(tls, clock)
