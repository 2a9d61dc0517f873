"""Options of logs: what fits a table, what may change, and what is refused with which reason."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.options.validate import check_alter, validate_table_options
from lakelog.options.values import TableOptions

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
LOG = {"log.system": "kafka", "kafka.bootstrap.servers": "kafka:9092"}
SASL = {
    "kafka.security.protocol": "sasl_ssl",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.username": "lakelog",
    "kafka.sasl.password": "secret:kafka-password",
}


def check(options: dict[str, str], *, keyed: bool = True) -> None:
    key = ["id"] if keyed else []
    validate_table_options(options, columns=COLUMNS, primary_key=key, partition_by=[])


@pytest.mark.parametrize(
    ("options", "keyed"),
    [
        (LOG, True),
        (LOG, False),
        ({"log.system": "none"}, True),
        ({**LOG, "bucket": "4", "log.system.partitions": "4"}, True),
        ({**LOG, "log.changelog-mode": "all", "log.format": "avro", "log.key.format": "json"}, True),
        ({**LOG, "log.content": "changelog", "changelog-producer": "lookup"}, True),
        ({**LOG, "log.consistency": "eventual", "log.retention": "1 d", "log.max-record-size": "8 mb"}, False),
        ({**LOG, "kafka.topic": "orders.changes", "streaming-read-mode": "file"}, True),
        ({**LOG, **SASL, "kafka.ssl.ca.pem": "secret:ca"}, True),
        (
            {
                **LOG,
                "kafka.security.protocol": "ssl",
                "kafka.ssl.certificate.pem": "secret:cert",
                "kafka.ssl.key.pem": "secret:key",
                "kafka.ssl.key.password": "secret:key-password",
            },
            True,
        ),
    ],
)
def test_possible(options: dict[str, str], keyed: bool) -> None:
    check(options, keyed=keyed)


@pytest.mark.parametrize(
    ("options", "keyed", "parts"),
    [
        ({"log.system": "pulsar"}, True, ["'log.system' = 'pulsar'", "'none', 'kafka'"]),
        ({"log.system": "kafka"}, True, ["Nothing says where the brokers are", "'kafka.bootstrap.servers'"]),
        ({"log.retention": "1 d"}, True, ["'log.retention' = '1 d'", "no effect without 'log.system' = 'kafka'"]),
        ({"kafka.topic": "t"}, True, ["no effect without 'log.system' = 'kafka'"]),
        ({"streaming-read-mode": "log"}, True, ["no log to read"]),
        ({**LOG, "bucket": "4", "log.system.partitions": "3"}, True, ["4 buckets", "at least 4"]),
        ({**LOG, "log.retention": "10 ms"}, True, ["at least '1 s'"]),
        ({**LOG, "log.max-record-size": "100 b"}, True, ["from 1 kb to 64 mb"]),
        ({**LOG, "log.content": "changelog"}, True, ["'changelog-producer' = 'lookup'"]),
        ({**LOG, "log.content": "changelog", "changelog-producer": "input"}, True, ["= 'lookup' finds"]),
        (
            {**LOG, "log.content": "changelog", "changelog-producer": "lookup", "log.consistency": "eventual"},
            True,
            ["'log.consistency' = 'eventual'", "none can be sent before"],
        ),
        (
            {**LOG, "merge-engine": "first-row", "streaming-read-mode": "log"},
            True,
            ["'first-row'", "read the files"],
        ),
        ({**LOG, "log.changelog-mode": "upsert"}, False, ["no primary key", "no key by which"]),
        ({**LOG, "log.key.format": "json"}, False, ["its records have no key"]),
        ({**LOG, "kafka.bootstrap.servers": "kafka"}, True, ["'host:port'"]),
        ({**LOG, "kafka.bootstrap.servers": "kafka:0"}, True, ["'host:port'"]),
        ({**LOG, "kafka.bootstrap.servers": "a:1,,b:2"}, True, ["'host:port'"]),
        ({**LOG, "kafka.topic": "a/b"}, True, ["1 to 249 letters"]),
        ({**LOG, "kafka.topic": "__consumer_offsets"}, True, ["Kafka's own topics"]),
        ({**LOG, "kafka.topic": ".."}, True, ["1 to 249 letters"]),
        ({**LOG, "kafka.sasl.username": "me"}, True, ["no effect with 'kafka.security.protocol' = 'plaintext'"]),
        ({**LOG, "kafka.ssl.ca.pem": "secret:ca"}, True, ["no effect with 'kafka.security.protocol' = 'plaintext'"]),
        ({**LOG, **SASL, "kafka.sasl.mechanism": "GSSAPI"}, True, ["runs a command", "'scram-sha-256'"]),
        (
            {**LOG, "kafka.security.protocol": "ssl", "kafka.ssl.key.pem": "secret:k"},
            True,
            ["'kafka.ssl.certificate.pem' is missing"],
        ),
        (
            {**LOG, "kafka.security.protocol": "ssl", "kafka.ssl.key.password": "secret:k"},
            True,
            ["'kafka.ssl.key.pem' is missing"],
        ),
    ],
)
def test_refused(options: dict[str, str], keyed: bool, parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check(options, keyed=keyed)
    for part in parts:
        assert part in caught.value.message


@pytest.mark.parametrize("key", ["kafka.client.id", "kafka.client.rack", "kafka.sasl.username"])
@pytest.mark.parametrize("text", ["a\nb", "a\rb", "\x1b[31mred", "a\u202eb", "a\u2028b", "a\x00b", " ", "x" * 257])
def test_what_brokers_write_into_their_logs_forges_no_line(key: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"(?s)'{key}'.*without line ends"):
        check({**LOG, **SASL, key: text})
    check({**LOG, **SASL, key: "Zähler 7/b €"})


@pytest.mark.parametrize("missing", ["kafka.sasl.mechanism", "kafka.sasl.username", "kafka.sasl.password"])
def test_credentials_are_whole(missing: str) -> None:
    with pytest.raises(InvalidArgument, match=f"'{missing}' is missing"):
        check({**LOG, **{key: value for key, value in SASL.items() if key != missing}})


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("kafka.plugin.library.paths", "load code or run commands"),
        ("kafka.ssl.engine.location", "load code or run commands"),
        ("kafka.sasl.kerberos.kinit.cmd", "load code or run commands"),
        ("kafka.ssl.key.location", "read files of their machines"),
        ("kafka.ssl.truststore.location", "read files of their machines"),
        ("kafka.sasl.oauthbearer.token.endpoint.url", "plain, scram-sha-256"),
        ("kafka.sasl.jaas.config", "plain, scram-sha-256"),
        ("kafka.enable.ssl.certificate.verification", "always checked"),
        ("kafka.acks", "all replicas in sync"),
        ("kafka.transactional.id", "exactly once"),
        ("kafka.enable.idempotence", "exactly once"),
        ("kafka.message.max.bytes", "'log.max-record-size'"),
        ("kafka.group.id", "positions are kept by lakelog"),
        ("kafka.socket.nagle.disable", "only the Kafka settings that the page on options lists"),
        ("log.scan.remove-normalize", "'scan.mode'"),
    ],
)
def test_what_is_not_allowed_is_refused_with_its_reason(key: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason) as caught:
        check({**LOG, key: "s3cret"})
    assert caught.value.reason == "REFUSED_OPTION"
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize("value", ["s3cret", "secret:", "secret:../etc/passwd", "secret:a b", "secret:.hidden", ""])
@pytest.mark.parametrize("key", ["kafka.sasl.password", "kafka.ssl.ca.pem", "kafka.ssl.key.pem"])
def test_secrets_are_references_and_never_repeated(key: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match="give 'secret:NAME'") as caught:
        TableOptions({key: value})
    shown = caught.value.message + str(caught.value.metadata) + repr(caught.value)
    assert not value or value == "secret:" or value not in shown


def test_what_may_change() -> None:
    check_alter(
        {**LOG, "log.system.partitions": "4", "log.retention": "1 d"},
        {"log.system.partitions": "8", "kafka.bootstrap.servers": "moved:9092", "log.max-record-size": "2 mb"},
        ["log.retention"],
    )


@pytest.mark.parametrize(
    ("set_options", "unset", "parts"),
    [
        ({"log.system": "none"}, [], ["'log.system' cannot change"]),
        ({}, ["log.system"], ["'log.system' cannot change"]),
        ({"log.format": "avro"}, [], ["'log.format' cannot change", "another form"]),
        ({"log.key.format": "avro"}, [], ["'log.key.format' cannot change"]),
        ({"log.content": "changelog"}, [], ["'log.content' cannot change"]),
        ({"log.changelog-mode": "all"}, [], ["'log.changelog-mode' cannot change"]),
        ({"log.consistency": "eventual"}, [], ["'log.consistency' cannot change"]),
        ({"kafka.topic": "other"}, [], ["'kafka.topic' cannot change"]),
        ({"log.system.replication": "3"}, [], ["kafka-reassign-partitions"]),
        ({"log.system.partitions": "3"}, [], ["4 partitions already", "takes none away"]),
        ({}, ["log.system.partitions"], ["'log.system.partitions' cannot be unset", "4 partitions already"]),
    ],
)
def test_what_may_not_change(set_options: dict[str, str], unset: list[str], parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_alter({**LOG, "log.system.partitions": "4"}, set_options, unset)
    for part in parts:
        assert part in caught.value.message


def test_a_table_without_a_log_gets_none_later() -> None:
    with pytest.raises(InvalidArgument, match="from its beginning on"):
        check_alter({}, LOG, [])
