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
    """Finds ports that no one listens on and that the system does not assign by itself.

    A restarted server wants its port back. If the port were in the range for outgoing connections, another client could
    have it by then, even one that tries to reach this very server. So the ports come from below that range. Another
    server may still take one before its user does; that shows as a failed start.

    Returns:
        As many different ports of 127.0.0.1, each 1024 or higher.

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
            # As servers do: a port whose last connections are still closing is free.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
                # With SO_REUSEADDR, Linux reports only here that another socket is bound to it but does not listen yet.
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
    """Finds one port of 127.0.0.1 that no one listens on; see `free_ports`."""
    return free_ports(1)[0]


def _candidates() -> range:
    """The ports to choose from: those below the system's own range, or, if that begins too low, any."""
    try:
        start = int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        start = _USUAL_EPHEMERAL_START
    return range(_LOWEST, start) if start >= _LOWEST + 1000 else range(1024, 65_536)
