"""What the console's socket is like."""

from __future__ import annotations

import socket

from console.config import parse_config
from console.wiring import listen


def test_connections_send_the_body_of_a_page_at_once() -> None:
    config = parse_config(["serve", "--insecure-dev", "--target", "localhost:1", "--listen", "127.0.0.1:0"], {})
    with (
        listen(config) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as served,
    ):
        assert served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "else it waits 40 ms for an acknowledgement"
