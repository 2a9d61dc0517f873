"""librdkafka's configuration: how to reach a table's brokers, and the settings that only lakelog sets. Pure.

`lakelog.options` decides which `kafka.*` options a table may have. Users cannot change the settings that exactly-once
depends on; they are refused here once more in case that list ever lets one through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakelog.errors import InvalidArgument
from lakelog.log.client_settings import to_producer_settings
from lakelog.log.kafka.client_lines import LOGGER
from lakelog.log.secrets import Secrets
from lakelog.log.topic_rules import FRAMING_BYTES
from lakelog.options.declared.log import LARGEST_RECORD_BYTES, LOG_MAX_RECORD_SIZE

MAX_RECORD_BYTES: Final = 1 << 20

TRANSACTION_TIMEOUT_MS: Final = 60_000
"""How long an abandoned transaction delays readers at most; the next publisher's re-initialisation ends it at once."""

STATISTICS_INTERVAL_MS: Final = 20
"""How soon it is known that no request of a transaction is left (R2). A report of 8 KB takes some 0.1 ms."""

# Those of the table's own properties that only producers know.
_OF_PRODUCERS: Final = frozenset(
    ("compression.type", "compression.codec", "compression.level", "linger.ms", "queue.buffering.max.ms")
)
_OURS: Final = frozenset(
    (
        "acks",
        "allow.auto.create.topics",
        "auto.offset.reset",
        "batch.size",
        "check.crcs",
        "default_topic_conf",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "logger",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "message.max.bytes",
        "message.send.max.retries",
        "message.timeout.ms",
        "metadata.recovery.strategy",
        "partitioner",
        "plugin.library.paths",
        "reconnect.backoff.ms",
        "request.required.acks",
        "retries",
        "retry.backoff.ms",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "statistics.interval.ms",
        "transaction.timeout.ms",
        "transactional.id",
    )
)

_OF_ALL: Final[Mapping[str, Any]] = {
    # Log lines go where all others go, instead of to stderr.
    "logger": LOGGER,
    # A request for a missing topic never creates it.
    "allow.auto.create.topics": False,
    # SUBTLE: with `rebootstrap`, the default, a client that lost all its connections at once forgets its brokers and
    # starts again. Requests to the transaction's coordinator then wait for ever (librdkafka 2.16.0, three of three
    # times), and the counts of repeated sends are forgotten with the brokers. Instead it tries known brokers again.
    "metadata.recovery.strategy": "none",
    # A broker that does not answer a request within this time counts as gone, and its connection is closed. The default
    # is twice as long.
    "socket.timeout.ms": 30_000,
    "socket.keepalive.enable": True,
    # A new client connects to a broker half of this time after its creation. With the default, 100, each of the three
    # clients of a re-initialisation takes 50 ms longer. A lost connection is tried again after this time, then after
    # twice as long each time.
    "reconnect.backoff.ms": 20,
}


@dataclass(frozen=True)
class KafkaSettings:
    """How to reach a cluster for one table.

    Args:
        properties: librdkafka's, secrets included; never shown.
        max_record_bytes: The largest record, key and headers included.

    Raises:
        InvalidArgument: No servers are named, or a property is one that only lakelog sets.
    """

    properties: Mapping[str, str] = field(repr=False)
    max_record_bytes: int = MAX_RECORD_BYTES

    def __post_init__(self) -> None:
        for name in self.properties:
            if name in _OURS or name.endswith("_cb"):
                raise InvalidArgument(
                    f"The Kafka property {name} cannot be set: that each change is in the log exactly once rests on it."
                    f" Remove it.",
                    metadata={"property": name},
                )
        if not self.servers:
            raise InvalidArgument(
                "The Kafka property bootstrap.servers is missing: name the brokers, as host:port, with commas in"
                " between.",
                metadata={"property": "bootstrap.servers"},
            )

    @property
    def servers(self) -> str:
        """The brokers, for messages."""
        return self.properties.get("bootstrap.servers", "")


def to_settings(options: Mapping[str, str], secrets: Secrets) -> KafkaSettings:
    """The settings of a table's log.

    Args:
        options: The options of the table, or of its log.
        secrets: Where the secrets that the options name are found now: a log opened again uses changed credentials.

    Raises:
        InvalidArgument: This service does not know a secret, or no brokers are named.
    """
    return KafkaSettings(to_producer_settings(options, secrets), LOG_MAX_RECORD_SIZE.read(options))


def to_admin_config(settings: KafkaSettings) -> dict[str, Any]:
    """For clients that only request and administer."""
    shared = {name: value for name, value in settings.properties.items() if name not in _OF_PRODUCERS}
    return {**shared, **_OF_ALL}


def to_reader_config(settings: KafkaSettings, group: str) -> dict[str, Any]:
    """For readers of committed records, which never jump and never commit."""
    return {
        **to_admin_config(settings),
        "group.id": group,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        # The reader gets a record as soon as it arrives, and the memory for waiting records is bounded.
        "fetch.wait.max.ms": 100,
        "queued.max.messages.kbytes": 32 << 10,
        # A failed fetch is tried again after this time: at the start partitions may not be known yet.
        "fetch.error.backoff.ms": 50,
        "topic.metadata.refresh.interval.ms": 30_000,
    }


def to_uncommitted_config(settings: KafkaSettings) -> dict[str, Any]:
    """For the producer of uncommitted records: a writer waits for the first record of a few."""
    return to_sender_config(settings, linger_ms="1")


def to_sender_config(settings: KafkaSettings, linger_ms: str = "5") -> dict[str, Any]:
    """For both kinds of producers: idempotent, each record on all replicas in sync, in order, in bounded memory."""
    return {
        "linger.ms": linger_ms,
        "compression.type": "lz4",
        **settings.properties,
        **_OF_ALL,
        "enable.idempotence": True,
        "acks": "all",
        # The topic bounds a batch, not a record; a compressed batch is smaller, but its size is not known before.
        "message.max.bytes": settings.max_record_bytes + FRAMING_BYTES,
        "batch.size": min(1_000_000, settings.max_record_bytes),
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": max(64 << 10, 4 * settings.max_record_bytes >> 10),
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 1000,
    }


def to_transactional_config(settings: KafkaSettings, transactional_id: str) -> dict[str, Any]:
    """For the producer of transactions (reliability R1 to R6).

    The commit checked its records by the option's value at that time. They go to the topic even if the option allows
    less by now: the topic's own bound is never lowered, so that only it counts.
    """
    return {
        **to_sender_config(settings),
        "message.max.bytes": LARGEST_RECORD_BYTES + FRAMING_BYTES,
        # Space for one record of this size; without it a send would wait for ever.
        "queue.buffering.max.kbytes": max(LARGEST_RECORD_BYTES + (1 << 20), 4 * settings.max_record_bytes) >> 10,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "statistics.interval.ms": STATISTICS_INTERVAL_MS,
    }
