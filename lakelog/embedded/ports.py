"""Free TCP ports of the loopback address."""

from __future__ import annotations

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """Finds ports that nobody listens on.

    Another process may take one before its user does: whoever starts a server on it sees that as a failed start.

    Args:
        count: How many.

    Returns:
        So many different ports of 127.0.0.1, between 1024 and 65535.
    """
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            # All are held open until the last is found, so that no two are the same.
            listener = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            listener.bind(("127.0.0.1", 0))
            ports.append(int(listener.getsockname()[1]))
        return ports


def free_port() -> int:
    """Finds one port of 127.0.0.1 that nobody listens on; see `free_ports`."""
    return free_ports(1)[0]
