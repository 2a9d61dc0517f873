"""Finding out whether brokers answer, and that a topic is there, before anything rests on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from lakelog.errors import NotFound
from lakelog.log.kafka.errors import DENIED_CODES, NO_TOPIC_CODES, to_lakelog_error
from lakelog.log.kafka.evidence import SendEvidence

ANSWER_TIMEOUT_S: Final = 10.0
"""How long brokers may take to answer a request that changes nothing."""

_SLICE_S: Final = 1.0


class Asking(Protocol):
    """A client that can ask for metadata."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Metadata of one topic, or of all."""
        ...


def ask_partitions(
    client: Asking,
    topic: str,
    evidence: SendEvidence,
    servers: str,
    serve: Callable[[], object] = lambda: None,
) -> int:
    """How many partitions a topic has. Blocks.

    Args:
        client: Whom to ask.
        topic: The topic.
        evidence: What the client has reported.
        servers: For messages.
        serve: Lets the client report, where no thread does.

    Raises:
        NotFound: There is no such topic.
        PermissionDenied: The brokers do not let us in; told at once, though the client would go on trying.
        Unavailable: No broker answers.
    """
    doing = f"The topic {topic} could not be looked up"
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        try:
            found = client.list_topics(topic, timeout=_SLICE_S).topics[topic]
        except KafkaException as e:
            serve()
            error = evidence.last_error
            if error is not None and (error.code() in DENIED_CODES or time.monotonic() > deadline):
                raise to_lakelog_error(error, doing, servers) from e
            if time.monotonic() > deadline:
                raise to_lakelog_error(e, doing, servers) from e
            continue
        cause: KafkaError | None = found.error
        if cause is None:
            return len(found.partitions)
        if cause.code() in NO_TOPIC_CODES:
            raise NotFound(
                f"There is no topic {topic} at {servers}. It was deleted, or its table is another.",
                reason="TOPIC_NOT_FOUND",
                metadata={"topic": topic},
            )
        if cause.code() in DENIED_CODES or time.monotonic() > deadline:
            raise to_lakelog_error(cause, doing, servers)
        # Leaders are being elected.
        time.sleep(0.05)
