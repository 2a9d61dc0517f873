"""The settings of Kafka's client, from a table's options and the secrets that these name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakelog.log.secrets import Secrets
from lakelog.options.declared.kafka import (
    KAFKA_ADDRESS_FAMILY,
    KAFKA_CLIENT_ID,
    KAFKA_CLIENT_RACK,
    KAFKA_COMPRESSION,
    KAFKA_LINGER_MS,
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
from lakelog.options.declared.kafka_values import SecretReference
from lakelog.options.option import Option

_CLIENT: Final[Mapping[str, Option[Any]]] = {
    "bootstrap.servers": KAFKA_SERVERS,
    "security.protocol": KAFKA_SECURITY_PROTOCOL,
    "sasl.mechanism": KAFKA_SASL_MECHANISM,
    "sasl.username": KAFKA_SASL_USERNAME,
    "sasl.password": KAFKA_SASL_PASSWORD,
    "ssl.ca.pem": KAFKA_SSL_CA,
    "ssl.certificate.pem": KAFKA_SSL_CERTIFICATE,
    "ssl.key.pem": KAFKA_SSL_KEY,
    "ssl.key.password": KAFKA_SSL_KEY_PASSWORD,
    "client.id": KAFKA_CLIENT_ID,
    "client.rack": KAFKA_CLIENT_RACK,
    "broker.address.family": KAFKA_ADDRESS_FAMILY,
}
_PRODUCER: Final[Mapping[str, Option[Any]]] = {
    "compression.type": KAFKA_COMPRESSION,
    "linger.ms": KAFKA_LINGER_MS,
}


class ClientSettings(dict[str, str]):
    """Settings by librdkafka's names. They contain secrets, so `repr` does not show them."""

    def __repr__(self) -> str:
        return f"ClientSettings({', '.join(sorted(self))})"

    __str__ = __repr__


def to_option_names() -> frozenset[str]:
    """The options that decide how any client reaches brokers."""
    return frozenset(option.key for option in _CLIENT.values())


def to_client_settings(options: Mapping[str, str], secrets: Secrets) -> ClientSettings:
    """The settings of all clients of a table's brokers.

    Args:
        options: The table's; those that are not about Kafka do not count.
        secrets: Where the secrets that the options name are found now.

    Raises:
        InvalidArgument: This service does not know a secret.
    """
    return _read(_CLIENT, options, secrets)


def to_producer_settings(options: Mapping[str, str], secrets: Secrets) -> ClientSettings:
    """The settings of clients that send records: those of `to_client_settings`, and more."""
    return _read({**_CLIENT, **_PRODUCER}, options, secrets)


def _read(known: Mapping[str, Option[Any]], options: Mapping[str, str], secrets: Secrets) -> ClientSettings:
    settings = ClientSettings()
    for name, option in known.items():
        value = option.read(options)
        if value is None:
            continue
        if isinstance(option.type, SecretReference):
            settings[name] = secrets.resolve(value)
        else:
            settings[name] = option.type.format(value)
    if "sasl.mechanism" in settings:
        # Brokers and librdkafka write these in capitals.
        settings["sasl.mechanism"] = settings["sasl.mechanism"].upper()
    return settings
