"""Whether the log options of a table fit the table, and may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakelog.errors import InvalidArgument
from lakelog.options.declared.kafka import (
    KAFKA_SASL_MECHANISM,
    KAFKA_SASL_PASSWORD,
    KAFKA_SASL_USERNAME,
    KAFKA_SECURITY_PROTOCOL,
    KAFKA_SERVERS,
    KAFKA_SSL_CA,
    KAFKA_SSL_CERTIFICATE,
    KAFKA_SSL_KEY,
    KAFKA_SSL_KEY_PASSWORD,
)
from lakelog.options.declared.log import (
    CHANGELOG_CONTENT,
    EVENTUAL,
    KAFKA,
    LOG_CHANGELOG_MODE,
    LOG_CONSISTENCY,
    LOG_CONTENT,
    LOG_KEY_FORMAT,
    LOG_PARTITIONS,
    LOG_RETENTION,
    LOG_SYSTEM,
    READ_LOG,
    STREAMING_READ_MODE,
    UPSERT,
)
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, FIRST_ROW, MERGE_ENGINE
from lakelog.options.option import Option, invalid_option
from lakelog.options.values import TableOptions

_PREFIXES: Final = ("log.", "kafka.")
_SASL: Final[tuple[Option[Any], ...]] = (KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD)
_SSL: Final[tuple[Option[Any], ...]] = (KAFKA_SSL_CA, KAFKA_SSL_CERTIFICATE, KAFKA_SSL_KEY, KAFKA_SSL_KEY_PASSWORD)
_LEAST_RETENTION_MS: Final = 1000


def is_of_log(key: str) -> bool:
    """Whether an option is about a table's log. Pure."""
    return key.startswith(_PREFIXES)


def check_log(options: Mapping[str, str], has_primary_key: bool) -> None:
    """Check that the log options of a table fit the table and each other. Pure.

    Args:
        options: The table's options, each valid by itself.
        has_primary_key: Whether the table has one.

    Raises:
        InvalidArgument: Names the option, the value and the remedy.
    """
    if LOG_SYSTEM.read(options) != KAFKA:
        _check_none(options)
        return
    if not KAFKA_SERVERS.read(options):
        raise LOG_SYSTEM.refusal(options, f"Nothing says where the brokers are. Give '{KAFKA_SERVERS.key}', too.")
    bucket_count = TableOptions(options).bucket_count(has_primary_key)
    partitions = LOG_PARTITIONS.read(options)
    if partitions is not None and partitions < bucket_count:
        raise LOG_PARTITIONS.refusal(
            options,
            f"The table has {bucket_count} buckets, and a bucket's records are in the partition of its number. Give at "
            f"least {bucket_count}, or leave it out.",
        )
    retention_ms = LOG_RETENTION.read(options)
    if retention_ms is not None and retention_ms < _LEAST_RETENTION_MS:
        raise LOG_RETENTION.refusal(options, "Give at least '1 s'.")
    _check_content(options)
    if has_primary_key:
        _check_read_mode(options)
    else:
        _check_append(options)
    _check_security(options)


def check_log_growth(current: Mapping[str, str], altered: Mapping[str, str]) -> None:
    """Check that a topic's number of partitions does not fall. Pure.

    Raises:
        InvalidArgument: Names the option, the value and the remedy.
    """
    before, after = LOG_PARTITIONS.read(current), LOG_PARTITIONS.read(altered)
    if before is None or LOG_SYSTEM.read(current) != KAFKA:
        return
    if after is None:
        raise InvalidArgument(
            f"Option '{LOG_PARTITIONS.key}' cannot be unset: the topic has {before} partitions already, and Kafka "
            f"takes none away. Leave it, or give more than {before}.",
            reason="INVALID_OPTION",
            metadata={"option": LOG_PARTITIONS.key},
        )
    if after < before:
        raise LOG_PARTITIONS.refusal(
            altered, f"The topic has {before} partitions already, and Kafka takes none away. Give {before} or more."
        )


def _check_none(options: Mapping[str, str]) -> None:
    for key in sorted(options):
        if is_of_log(key) and key != LOG_SYSTEM.key:
            raise invalid_option(
                key, options[key], f"It has no effect without '{LOG_SYSTEM.key}' = '{KAFKA}'. Give both, or none."
            )
    if STREAMING_READ_MODE.read(options) == READ_LOG:
        raise STREAMING_READ_MODE.refusal(
            options, f"The table has no log to read: give '{LOG_SYSTEM.key}' = '{KAFKA}' as well, or leave it out."
        )


def _check_content(options: Mapping[str, str]) -> None:
    if LOG_CONTENT.read(options) != CHANGELOG_CONTENT:
        return
    if CHANGELOG_PRODUCER.read(options) != "lookup":
        raise LOG_CONTENT.refusal(
            options,
            f"Only '{CHANGELOG_PRODUCER.key}' = 'lookup' finds the rows that were there before. Give both, or "
            "leave it out.",
        )
    if LOG_CONSISTENCY.read(options) == EVENTUAL:
        raise LOG_CONSISTENCY.refusal(
            options,
            f"With '{LOG_CONTENT.key}' = '{CHANGELOG_CONTENT}' records are known only after their commit, so none can "
            "be sent before it. Leave one of the two out.",
        )


def _check_read_mode(options: Mapping[str, str]) -> None:
    if STREAMING_READ_MODE.read(options) != READ_LOG:
        return
    if MERGE_ENGINE.read(options) == FIRST_ROW:
        raise STREAMING_READ_MODE.refusal(
            options,
            f"With '{MERGE_ENGINE.key}' = '{FIRST_ROW}' the log also holds rows that are never shown, so streams must "
            "read the files. Leave it out.",
        )


def _check_append(options: Mapping[str, str]) -> None:
    if LOG_CHANGELOG_MODE.read(options) == UPSERT:
        raise LOG_CHANGELOG_MODE.refusal(
            options,
            "The table has no primary key, so its records have no key by which one could replace another. Give the "
            "table a primary key, or leave the option out.",
        )
    if LOG_KEY_FORMAT.key in options:
        raise LOG_KEY_FORMAT.refusal(
            options, "The table has no primary key, so its records have no key. Leave the option out."
        )


def _check_security(options: Mapping[str, str]) -> None:
    protocol = KAFKA_SECURITY_PROTOCOL.read(options)
    uses_sasl, uses_ssl = protocol.startswith("sasl_"), protocol.endswith("ssl")
    for of_kind, used, wanted in ((_SASL, uses_sasl, "sasl_ssl"), (_SSL, uses_ssl, "ssl' or 'sasl_ssl")):
        given = [option.key for option in of_kind if option.key in options]
        if given and not used:
            raise invalid_option(
                given[0],
                options[given[0]],
                f"It has no effect with '{KAFKA_SECURITY_PROTOCOL.key}' = '{protocol}'. Give '{wanted}' there, or "
                "leave this one out.",
            )
    if uses_sasl:
        _check_together(options, _SASL, f"'{KAFKA_SECURITY_PROTOCOL.key}' = '{protocol}'")
    if KAFKA_SSL_CERTIFICATE.key in options or KAFKA_SSL_KEY.key in options:
        _check_together(options, (KAFKA_SSL_CERTIFICATE, KAFKA_SSL_KEY), "a client certificate")
    if KAFKA_SSL_KEY_PASSWORD.key in options and KAFKA_SSL_KEY.key not in options:
        raise _missing(KAFKA_SSL_KEY, f"'{KAFKA_SSL_KEY_PASSWORD.key}'")


def _check_together(options: Mapping[str, str], needed: tuple[Option[Any], ...], by: str) -> None:
    for option in needed:
        if option.key not in options:
            raise _missing(option, by)


def _missing(option: Option[Any], by: str) -> InvalidArgument:
    return InvalidArgument(
        f"Option '{option.key}' is missing, which {by} needs: {option.type.description}. Give it, too.",
        reason="MISSING_OPTION",
        metadata={"option": option.key},
    )
