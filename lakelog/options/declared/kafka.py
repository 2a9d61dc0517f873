"""The options for reaching Kafka's brokers, and the few settings of its client that tables may choose.

All others are refused. Some settings of the client load libraries, run commands or read files of the service's machine;
others would break the publisher's promises.
"""

from __future__ import annotations

from typing import Final

from lakelog.options.declared.kafka_values import Brokers, BrokerText, SecretReference, TopicName
from lakelog.options.option import Option
from lakelog.options.value_types import Choice, Whole

KAFKA_SERVERS: Final = Option[tuple[str, ...]](
    "kafka.bootstrap.servers",
    Brokers(),
    (),
    "Brokers through which clients find the cluster. They must be among those that the metastore's operator allows. "
    "They may change when the cluster moves with its topics.",
    default_text="the operator's, where there is one cluster",
)
KAFKA_TOPIC: Final = Option[str | None](
    "kafka.topic",
    TopicName(),
    None,
    "The name of the topic. An existing topic is used if it fits; a topic that is named here is never deleted.",
    fixed_because="records that are in the old topic would be missing in the new one; make a new table",
    default_text="`<database>_<table>_<uuid>`, which is made and dropped with the table",
)
KAFKA_SECURITY_PROTOCOL: Final = Option[str](
    "kafka.security.protocol",
    Choice(("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")),
    "plaintext",
    "The protocol of connections to brokers.",
)
KAFKA_SASL_MECHANISM: Final = Option[str | None](
    "kafka.sasl.mechanism",
    Choice(
        ("plain", "scram-sha-256", "scram-sha-512"),
        refused={
            "gssapi": "its client runs a command on the machine of each service",
            "oauthbearer": "its client fetches tokens from addresses that a table would choose",
        },
    ),
    None,
    "How services sign in to brokers; with the protocols `sasl_plaintext` and `sasl_ssl`.",
)
KAFKA_SASL_USERNAME: Final = Option[str | None](
    "kafka.sasl.username", BrokerText(), None, "The user name at the brokers."
)
KAFKA_SASL_PASSWORD: Final = Option[str | None](
    "kafka.sasl.password", SecretReference(), None, "The password of `kafka.sasl.username`, by reference."
)
KAFKA_SSL_CA: Final = Option[str | None](
    "kafka.ssl.ca.pem",
    SecretReference(),
    None,
    "The certificates that must have signed those of the brokers, PEM, by reference.",
    default_text="those that the machine trusts",
)
KAFKA_SSL_CERTIFICATE: Final = Option[str | None](
    "kafka.ssl.certificate.pem", SecretReference(), None, "The client's certificate, PEM, by reference."
)
KAFKA_SSL_KEY: Final = Option[str | None](
    "kafka.ssl.key.pem", SecretReference(), None, "The private key of `kafka.ssl.certificate.pem`, PEM, by reference."
)
KAFKA_SSL_KEY_PASSWORD: Final = Option[str | None](
    "kafka.ssl.key.password", SecretReference(), None, "The password of `kafka.ssl.key.pem`, by reference."
)
KAFKA_CLIENT_ID: Final = Option[str](
    "kafka.client.id", BrokerText(), "lakelog", "The client's name in the brokers' quotas and logs."
)
KAFKA_CLIENT_RACK: Final = Option[str | None](
    "kafka.client.rack",
    BrokerText(),
    None,
    "The rack of readers, so that they read from a replica near them.",
)
KAFKA_ADDRESS_FAMILY: Final = Option[str](
    "kafka.broker.address.family", Choice(("any", "v4", "v6")), "any", "Which addresses of brokers are used."
)
KAFKA_COMPRESSION: Final = Option[str](
    "kafka.compression.type",
    Choice(("none", "gzip", "snappy", "lz4", "zstd")),
    "lz4",
    "How batches of records are compressed.",
)
KAFKA_LINGER_MS: Final = Option[int | None](
    "kafka.linger.ms",
    Whole(0, 1000),
    None,
    "How many milliseconds a record waits for others in its batch. Not given: 5, and 1 for records that are sent "
    "before their commit (`eventual`).",
)
