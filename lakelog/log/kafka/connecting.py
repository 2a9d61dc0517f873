"""Checks that brokers answer and that a topic exists, before anything depends on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException

from lakelog.errors import NotFound
from lakelog.log.kafka.errors import NO_TOPIC_CODES, get_cause, is_denied, to_lakelog_error
from lakelog.log.kafka.sending.duplicate_check import DuplicateSendCheck

ANSWER_TIMEOUT_S: Final = 10.0
"""How long brokers may take to answer a request that changes nothing."""

_SLICE_S: Final = 1.0
_PAUSE_S: Final = 0.05
_NEW_TOPIC_S: Final = 0.5
"""For so long some brokers may not know a new topic."""

_SETTLING_CODES: Final = frozenset(
    (
        *NO_TOPIC_CODES,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
    )
)
"""The answers while a cluster looks for leaders or coordinators, for instance after a start or a topic's creation."""

Answer = TypeVar("Answer")


def request(question: Callable[[], Answer]) -> Answer:
    """Sends a request that changes nothing, until the cluster has settled. Blocks.

    Raises:
        KafkaException: The last error, or the first one for which waiting does not help.
    """
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        try:
            return question()
        except KafkaException as e:
            if get_cause(e).code() not in _SETTLING_CODES or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


class Asking(Protocol):
    """A client that can request metadata."""

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Metadata of one topic, or of all."""
        ...


def request_partitions(
    client: Asking,
    topic: str,
    duplicate_check: DuplicateSendCheck,
    servers: str,
    serve: Callable[[], object] = lambda: None,
) -> int:
    """The number of a topic's partitions. Blocks.

    Args:
        client: The client that requests it.
        topic: The topic.
        duplicate_check: Has the errors that the client has reported.
        servers: The brokers, for messages.
        serve: Serves the client's callbacks, if no thread does.

    Raises:
        NotFound: There is no such topic.
        PermissionDenied: The brokers refuse us; raised at once, though the client would go on trying.
        Unavailable: No broker answers.
    """
    doing = f"The topic {topic} could not be looked up"
    began = time.monotonic()
    deadline = began + ANSWER_TIMEOUT_S
    while True:
        try:
            found = client.list_topics(topic, timeout=_SLICE_S).topics[topic]
        except KafkaException as e:
            serve()
            error = duplicate_check.last_error
            if error is not None and (is_denied(error) or time.monotonic() > deadline):
                raise to_lakelog_error(error, doing, servers) from e
            if time.monotonic() > deadline:
                raise to_lakelog_error(e, doing, servers) from e
            continue
        cause: KafkaError | None = found.error
        if cause is None:
            return len(found.partitions)
        if cause.code() in NO_TOPIC_CODES and time.monotonic() > began + _NEW_TOPIC_S:
            raise NotFound(
                f"There is no topic {topic} at {servers}. It was deleted, or its table is another.",
                reason="TOPIC_NOT_FOUND",
                metadata={"topic": topic},
            )
        if is_denied(cause) or time.monotonic() > deadline:
            raise to_lakelog_error(cause, doing, servers)
        # The cluster is electing leaders.
        time.sleep(_PAUSE_S)
