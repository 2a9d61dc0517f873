"""librdkafka's configuration: how a table's brokers are reached, and what is ours alone. Pure.

Which `kafka.*` options a table may have is decided in `lakelog.options`. What exactly-once rests on cannot be set from
outside, and is refused here once more should a list ever let it through.
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
from lakelog.options import LARGEST_RECORD_BYTES, LOG_MAX_RECORD_SIZE

MAX_RECORD_BYTES: Final = 1 << 20

TRANSACTION_TIMEOUT_MS: Final = 60_000
"""How long an abandoned transaction holds readers back at most; a fresh start of the next publisher ends it at once."""

STATISTICS_INTERVAL_MS: Final = 20
"""How soon it is known that a transaction left nothing behind it (R2). A report of 8 KB takes some 0.1 ms."""

# Of the table's own properties those that only producers know.
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
        "statistics.interval.ms",
        "transaction.timeout.ms",
        "transactional.id",
    )
)

_OF_ALL: Final[Mapping[str, Any]] = {
    # Logs go the way of all others, instead of to stderr.
    "logger": LOGGER,
    # A topic that is not there is never made by asking for it.
    "allow.auto.create.topics": False,
    # SUBTLE: with `rebootstrap`, the default, a client that lost all its connections at once forgets its brokers and
    # begins anew. Requests to the transaction's coordinator then wait for ever (librdkafka 2.16.0, three of three
    # times), and the counts of what was sent twice are forgotten with the brokers. Known ones are tried again instead.
    "metadata.recovery.strategy": "none",
    # A new client connects to a broker half of this behind its creation: with the default, 100, each of the three that
    # a fresh start opens takes 50 ms longer. Lost connections are tried again after this, then twice as late each time.
    "reconnect.backoff.ms": 20,
}


@dataclass(frozen=True)
class KafkaSettings:
    """How to reach a cluster for one table.

    Args:
        properties: librdkafka's, secrets among them; never shown.
        max_record_bytes: The largest record, key and headers included.

    Raises:
        InvalidArgument: No servers are named, or a property is ours alone.
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
        """For messages."""
        return self.properties.get("bootstrap.servers", "")


def to_settings(options: Mapping[str, str], secrets: Secrets) -> KafkaSettings:
    """The settings of a table's log.

    Args:
        options: The table's, or those of its log.
        secrets: Where what the options name is found, now: who opens a log again uses credentials that have changed.

    Raises:
        InvalidArgument: A secret is not known to this service, or no brokers are named.
    """
    return KafkaSettings(to_producer_settings(options, secrets), LOG_MAX_RECORD_SIZE.read(options))


def to_admin_config(settings: KafkaSettings) -> dict[str, Any]:
    """For clients that only ask and administer."""
    shared = {name: value for name, value in settings.properties.items() if name not in _OF_PRODUCERS}
    return {**shared, **_OF_ALL}


def to_reader_config(settings: KafkaSettings, group: str) -> dict[str, Any]:
    """For readers of what is committed, which never jump and never commit."""
    return {
        **to_admin_config(settings),
        "group.id": group,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        # Of a record that has come the reader hears at once, and what waits in memory is bounded.
        "fetch.wait.max.ms": 100,
        "queued.max.messages.kbytes": 32 << 10,
        # A failed fetch is tried again after this long: at the start partitions may not be known yet.
        "fetch.error.backoff.ms": 50,
        "topic.metadata.refresh.interval.ms": 30_000,
    }


def to_uncommitted_config(settings: KafkaSettings) -> dict[str, Any]:
    """For the producer of what is sent before its commit: somebody waits for the first record of a few."""
    return to_sender_config(settings, linger_ms="1")


def to_sender_config(settings: KafkaSettings, linger_ms: str = "5") -> dict[str, Any]:
    """For producers of both kinds: idempotent, each record on all replicas in sync, in order, in bounded memory."""
    return {
        "linger.ms": linger_ms,
        "compression.type": "lz4",
        **settings.properties,
        **_OF_ALL,
        "enable.idempotence": True,
        "acks": "all",
        # The topic bounds a batch, not a record; compressed it is smaller, but that is not known before.
        "message.max.bytes": settings.max_record_bytes + FRAMING_BYTES,
        "batch.size": min(1_000_000, settings.max_record_bytes),
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": max(64 << 10, 4 * settings.max_record_bytes >> 10),
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 1000,
    }


def to_transactional_config(settings: KafkaSettings, transactional_id: str) -> dict[str, Any]:
    """For the producer of transactions (reliability R1 to R6).

    What is committed was checked by what the option said then, and goes to the topic also where it says less by now:
    the topic's own bound is never lowered, so that only it counts.
    """
    return {
        **to_sender_config(settings),
        "message.max.bytes": LARGEST_RECORD_BYTES + FRAMING_BYTES,
        # Room for one of these, which would be waited for forever otherwise.
        "queue.buffering.max.kbytes": max(LARGEST_RECORD_BYTES + (1 << 20), 4 * settings.max_record_bytes) >> 10,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "statistics.interval.ms": STATISTICS_INTERVAL_MS,
    }
