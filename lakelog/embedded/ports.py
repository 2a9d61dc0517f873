"""Free TCP ports of the loopback address."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

from lakelog.errors import Unavailable

_LOWEST: Final = 10_000
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_EPHEMERAL_START: Final = 32_768
_TRIES_A_PORT: Final = 200


def free_ports(count: int) -> list[int]:
    """Finds ports that nobody listens on and that the system gives to nobody of its own accord.

    A server that is started again wants its port back. From the range of which the system serves outgoing connections,
    a client of somebody else, or one that tries in vain to reach this very server, may have got it meanwhile; so ports
    are drawn from below that range. Another server may still take one before its user does: whoever starts a server on
    it sees that as a failed start.

    Args:
        count: How many.

    Returns:
        So many different ports of 127.0.0.1, of 1024 or more.

    Raises:
        Unavailable: Nearly all ports are taken.
    """
    candidates = _candidates()
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(candidates, min(len(candidates), count * _TRIES_A_PORT)):
            if len(ports) == count:
                break
            listener = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            # As servers do: a port whose last connections are just fading is free.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
                # With SO_REUSEADDR, Linux tells of another that has bound it, but does not listen yet, here only.
                listener.listen()
            except OSError:
                continue
            ports.append(port)
    if len(ports) < count:
        raise Unavailable(
            f"Of the ports {candidates[0]} to {candidates[-1]} of 127.0.0.1 hardly any is free. End what holds them, "
            "or name the ports to use."
        )
    return ports


def free_port() -> int:
    """Finds one port of 127.0.0.1 that nobody listens on; see `free_ports`."""
    return free_ports(1)[0]


def _candidates() -> range:
    """The ports to draw from: those below the system's own range, or, where that begins too low, any."""
    try:
        start = int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        start = _USUAL_EPHEMERAL_START
    return range(_LOWEST, start) if start >= _LOWEST + 1000 else range(1024, 65_536)
