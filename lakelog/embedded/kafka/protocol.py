"""The two requests of Kafka's wire protocol that the start of a broker needs, without a Kafka client."""

from __future__ import annotations

import socket
import struct
from typing import Final

_LONGEST_ANSWER_BYTES: Final = 1 << 20
_METADATA: Final = 3
_UNREGISTER_BROKER: Final = 64
_NOT_CONTROLLER: Final = 41
_BROKER_ID_NOT_REGISTERED: Final = 102


def find_cluster(host: str, port: int, *, timeout_s: float = 1.0) -> str | None:
    """Requests the id of a broker's cluster.

    Returns:
        The cluster's id; None: there is no answer in time, or no broker has joined the cluster yet.
    """
    # Metadata, version 2, of an empty array of topics.
    try:
        return _parse_cluster(_request(host, port, struct.pack(">hhihi", _METADATA, 2, 1, -1, 0), timeout_s))
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def forget_broker(host: str, controller_port: int, broker_id: int, *, timeout_s: float = 1.0) -> bool | None:
    """Makes a controller forget that a broker takes part.

    Returns:
        True: it has; False: it is certainly not active yet; None: it gave no answer in time.
    """
    # UnregisterBroker, version 0; its fields may have tags: none here.
    request = struct.pack(">hhihBiB", _UNREGISTER_BROKER, 0, 1, -1, 0, broker_id, 0)
    try:
        answer = _request(host, controller_port, request, timeout_s)
        # The correlation, no tags, the throttle time, the error.
        _, _, _, error = struct.unpack_from(">iBih", answer)
    except ConnectionRefusedError:
        return False
    except (OSError, struct.error):
        return None
    if error == _NOT_CONTROLLER:
        return False
    return True if error in (0, _BROKER_ID_NOT_REGISTERED) else None


def _request(host: str, port: int, request: bytes, timeout_s: float) -> bytes:
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            return stream.read(min(size, _LONGEST_ANSWER_BYTES))


def _parse_cluster(answer: bytes) -> str | None:
    """Parses an answer to Metadata, version 2, as `find_cluster`; an error of `struct` if it is none. Pure."""

    def skip_text(place: int) -> int:
        (length,) = struct.unpack_from(">h", answer, place)
        return place + 2 + max(0, length)

    # The correlation, then an array of brokers: id, host, port, rack.
    _, brokers = struct.unpack_from(">ii", answer)
    place = 8
    for _ in range(brokers):
        place = skip_text(skip_text(place + 4) + 4)
    (length,) = struct.unpack_from(">h", answer, place)
    return answer[place + 2 : place + 2 + length].decode() if brokers > 0 and length > 0 else None
