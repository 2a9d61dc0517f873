"""What gRPC must leave to us, so that each request that is refused is refused by a limit of ours, with its name."""

from __future__ import annotations

from typing import Final

_MOST_PENDING: Final = 100_000
"""Calls that wait for the event loop: more than its connections and their streams usually bring."""

_IDENTITY_ONLY: Final = 1
"""A set of algorithms of compression by bits."""

EDGE_OPTIONS: Final = (
    # Beyond 1000 calls gRPC cancels new ones at random, beyond 3000 all: of every client, not of the one that floods.
    ("grpc.server.max_pending_requests", _MOST_PENDING),
    ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING),
    # A compressed request can be a thousand times larger than what its sender has sent.
    ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
)


def max_age_options(max_connection_age_s: float) -> tuple[tuple[str, int], ...]:
    """Options that let a server end connections of some age; none for 0. Pure.

    gRPC varies the age by a tenth, so that clients do not come back all at once. Open calls go on without a limit: a
    watch stays where it is, and only new calls need the new connection.
    """
    return (("grpc.max_connection_age_ms", int(max_connection_age_s * 1000)),) if max_connection_age_s else ()
