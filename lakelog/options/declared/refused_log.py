"""Options of logs that are refused, each with the reason; a part of `lakelog.options.declared.refused`."""

from __future__ import annotations

from typing import Final

_RUNS_CODE: Final = "it would let a table make services load code or run commands"
_READS_FILES: Final = (
    "it would let a table make services read files of their machines; give the text by reference: kafka.ssl.ca.pem, "
    "kafka.ssl.certificate.pem, kafka.ssl.key.pem with 'secret:NAME'"
)
_CHECKED: Final = "certificates and names of brokers are always checked"
_ONE_WAY: Final = (
    "kafka.sasl.mechanism takes plain, scram-sha-256 and scram-sha-512, with kafka.sasl.username and .password"
)
_EXACTLY_ONCE: Final = "the publisher sets it, so that each record is in the log exactly once"
_POSITIONS: Final = "positions are kept by lakelog; consumers of your own have settings of their own"
_NOT_ALLOWED: Final = (
    "tables may choose only the Kafka settings that the page on options lists, since services share their "
    "machines with other tables"
)

REFUSED_LOG_OPTIONS: Final[dict[str, str]] = {
    "log.scan*": "streams begin where 'scan.mode' and its options say",
    "log.ignore-delete": "give 'ignore-delete', which holds for files and log alike",
    "log.kafka.*": "give 'kafka.*'",
    "log.*": "the options of logs are those that the page on options lists",
    "kafka.acks": "a record counts as written once all replicas in sync have it",
    "kafka.request.required.acks": "a record counts as written once all replicas in sync have it",
    "kafka.transactional.id": _EXACTLY_ONCE,
    "kafka.transaction.*": _EXACTLY_ONCE,
    "kafka.enable.idempotence": _EXACTLY_ONCE,
    "kafka.enable.gapless.guarantee": _EXACTLY_ONCE,
    "kafka.max.in.flight*": _EXACTLY_ONCE,
    "kafka.retries": _EXACTLY_ONCE,
    "kafka.message.send.max.retries": _EXACTLY_ONCE,
    "kafka.retry.*": _EXACTLY_ONCE,
    "kafka.partitioner*": "a record's partition is its bucket",
    "kafka.delivery.timeout.ms": _EXACTLY_ONCE,
    "kafka.message.timeout.ms": _EXACTLY_ONCE,
    "kafka.message.max.bytes": "give 'log.max-record-size'",
    "kafka.max.request.size": "give 'log.max-record-size'",
    "kafka.compression.codec": "give 'kafka.compression.type'",
    "kafka.queue.buffering.max.ms": "give 'kafka.linger.ms'",
    "kafka.metadata.broker.list": "give 'kafka.bootstrap.servers'",
    "kafka.sasl.mechanisms": "give 'kafka.sasl.mechanism'",
    "kafka.plugin.library.paths": _RUNS_CODE,
    "kafka.ssl.engine.*": _RUNS_CODE,
    "kafka.ssl.providers": _RUNS_CODE,
    "kafka.sasl.kerberos.*": _RUNS_CODE,
    "kafka.interceptor.classes": _RUNS_CODE,
    "kafka.*.callback.handler.class": _RUNS_CODE,
    "kafka.ssl.ca.location": _READS_FILES,
    "kafka.ssl.certificate.location": _READS_FILES,
    "kafka.ssl.key.location": _READS_FILES,
    "kafka.ssl.crl.location": _READS_FILES,
    "kafka.ssl.keystore.*": _READS_FILES,
    "kafka.ssl.truststore.*": _READS_FILES,
    "kafka.ssl.ca.certificate.stores": _READS_FILES,
    "kafka.enable.ssl.certificate.verification": _CHECKED,
    "kafka.ssl.endpoint.identification.algorithm": _CHECKED,
    "kafka.sasl.oauthbearer.*": _ONE_WAY,
    "kafka.enable.sasl.oauthbearer.*": _ONE_WAY,
    "kafka.sasl.jaas.config": _ONE_WAY,
    "kafka.https.*": _ONE_WAY,
    "kafka.group.*": _POSITIONS,
    "kafka.auto.offset.reset": "streams begin where 'scan.mode' and its options say",
    "kafka.enable.auto.*": _POSITIONS,
    "kafka.isolation.level": "readers see what was committed, as 'log.consistency' says",
    "kafka.allow.auto.create.topics": "a table's topic is made with the table",
    "kafka.debug": "the level of a service's own logs decides what they show",
    "kafka.*": _NOT_ALLOWED,
}
"""By key, or by a pattern in which `*` stands for any text; the first match counts."""
