"""Checks whether the user's brokers can be reached, before anything is started for them.

It only opens a connection: brokers with TLS or passwords answer nothing else to a stranger.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from typing import Final

from lakelog.client.connection.target import parse_target
from lakelog.errors import Unavailable

_WITHIN_S: Final = 5.0
"""Long for a connection, but short enough for a person at a terminal."""


def check_brokers(servers: str, *, within_s: float = _WITHIN_S) -> list[str]:
    """Connects to all brokers at once and closes the connections; blocks for `within_s` seconds at most.

    Args:
        servers: The brokers as `host:port`, with commas between.
        within_s: The time limit.

    Returns:
        What is wrong with unreachable brokers, if another one is reachable; one text for each.

    Raises:
        Unavailable: None is reachable; reason `NO_BROKER`.
    """
    names = servers.split(",")
    wrong = _find_unreachable(names, within_s)
    reported = [f"{name}: {wrong[name]}" for name in names if name in wrong]
    if len(wrong) == len(set(names)):
        raise Unavailable(
            f"No Kafka broker can be reached at {servers} ({'; '.join(reported)}). Nothing was started. Correct "
            "--kafka-bootstrap-servers, start the brokers first, or leave the option out: logs of tables then wait.",
            reason="NO_BROKER",
            metadata={"brokers": servers},
        )
    return reported


def _find_unreachable(names: Sequence[str], within_s: float) -> dict[str, str]:
    reached: dict[str, str | None] = {}

    def probe(name: str) -> None:
        target = parse_target(name)
        try:
            socket.create_connection((target.host, target.port), timeout=within_s).close()
        except OSError as error:
            reached[name] = error.strerror or str(error)
        except UnicodeError:
            reached[name] = "no name of a host"
        else:
            reached[name] = None

    # Threads that need no join: a name's look-up has no time limit of its own.
    probes = [threading.Thread(target=probe, args=(name,), daemon=True) for name in names]
    until_s = time.monotonic() + within_s
    for each in probes:
        each.start()
    for each in probes:
        each.join(max(0.0, until_s - time.monotonic()))
    silent = f"no answer within {within_s:g} s"
    found = {name: reached.get(name, silent) for name in names}
    return {name: why for name, why in found.items() if why is not None}
