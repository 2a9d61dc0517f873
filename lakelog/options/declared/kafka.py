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
    "Brokers by which the cluster is found. They must be among those that the metastore's operator allows. They may "
    "change when the cluster moves; its topics must move along.",
    default_text="the operator's, where there is one cluster",
)
KAFKA_TOPIC: Final = Option[str | None](
    "kafka.topic",
    TopicName(),
    None,
    "The topic. One that exists is taken if it fits, and it is never deleted.",
    fixed_because="records that are in the old topic would be missing in the new one; make a new table",
    default_text="`<database>_<table>_<uuid>`, which is made and dropped with the table",
)
KAFKA_SECURITY_PROTOCOL: Final = Option[str](
    "kafka.security.protocol",
    Choice(("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")),
    "plaintext",
    "How brokers are talked to.",
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
    "How we prove to brokers who we are; with the protocols `sasl_plaintext` and `sasl_ssl`.",
)
KAFKA_SASL_USERNAME: Final = Option[str | None]("kafka.sasl.username", BrokerText(), None, "Who we are to the brokers.")
KAFKA_SASL_PASSWORD: Final = Option[str | None](
    "kafka.sasl.password", SecretReference(), None, "The password of `kafka.sasl.username`, by reference."
)
KAFKA_SSL_CA: Final = Option[str | None](
    "kafka.ssl.ca.pem",
    SecretReference(),
    None,
    "The certificates that the brokers' must be signed by, PEM, by reference.",
    default_text="those that the machine trusts",
)
KAFKA_SSL_CERTIFICATE: Final = Option[str | None](
    "kafka.ssl.certificate.pem", SecretReference(), None, "Our own certificate, PEM, by reference."
)
KAFKA_SSL_KEY: Final = Option[str | None](
    "kafka.ssl.key.pem", SecretReference(), None, "The private key of `kafka.ssl.certificate.pem`, PEM, by reference."
)
KAFKA_SSL_KEY_PASSWORD: Final = Option[str | None](
    "kafka.ssl.key.password", SecretReference(), None, "The password of `kafka.ssl.key.pem`, by reference."
)
KAFKA_CLIENT_ID: Final = Option[str](
    "kafka.client.id", BrokerText(), "lakelog", "By what name brokers know us in quotas and their logs."
)
KAFKA_CLIENT_RACK: Final = Option[str | None](
    "kafka.client.rack",
    BrokerText(),
    None,
    "Where readers are, so that they read from a replica near them.",
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
    "How many milliseconds a record waits for others to share a batch with. Not given: 5, and 1 where it is sent "
    "before its commit (`eventual`).",
)
