"""The Kafka that `lakelog up` uses: none, its own, or the user's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.client.connection.target import parse_target
from lakelog.errors import InvalidArgument

DEFAULT_KAFKA_PORT: Final = 9092
"""Fixed, unlike the metrics port: tables store the address of their Kafka."""


@dataclass(frozen=True)
class KafkaChoice:
    """The Kafka to use.

    Args:
        port: The port of our own broker; None: none runs.
        servers: The user's bootstrap servers; None: there are none.
    """

    port: int | None = None
    servers: str | None = None


def choose_kafka(is_wanted: bool, port: int | None, servers: str | None) -> KafkaChoice:
    """Combines the options. Pure.

    Raises:
        InvalidArgument: They contradict each other, or a server has no valid address.
    """
    if servers is not None:
        if port is not None:
            raise InvalidArgument(
                f"--kafka-port {port} is for a Kafka that `lakelog up` runs, and --kafka-bootstrap-servers {servers} "
                "names another. Leave one out."
            )
        try:
            targets = [parse_target(server.strip()) for server in servers.split(",")]
        except InvalidArgument as error:
            raise InvalidArgument(f"--kafka-bootstrap-servers {servers!r}: {error.message}") from None
        return KafkaChoice(servers=",".join(map(str, targets)))
    if port is not None and not is_wanted:
        raise InvalidArgument(f"--kafka-port {port} is for a Kafka, and none is asked for. Add --kafka.")
    return KafkaChoice(port=(port or DEFAULT_KAFKA_PORT) if is_wanted else None)
