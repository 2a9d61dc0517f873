"""What a pipeline's file may say of a topic, and what each mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.errors import InvalidArgument
from writer.pipeline.kafka_spec import KafkaSource, RecordFormat, Start
from writer.pipeline.reading import read_pipeline

GOOD = """\
name: orders
table: shop.orders
mode: upsert
source:
  type: kafka
  bootstrap_servers: kafka-1:9092
  topic: shop.orders
  format: json
checkpoint: ./state
"""


def read(folder: Path, text: str) -> KafkaSource:
    file = folder / "p.yaml"
    file.write_text(text)
    source = read_pipeline(file).source
    assert isinstance(source, KafkaSource)
    return source


def test_smallest(tmp_path: Path) -> None:
    source = read(tmp_path, GOOD)
    assert (source.topics, source.format, source.starting) == (("shop.orders",), RecordFormat.JSON, Start.EARLIEST)
    assert source.options == {"kafka.bootstrap.servers": "kafka-1:9092"}
    assert (source.unit, source.ignore_unknown, source.takes_uncommitted) == ("records", False, False)
    assert source.description == "json records of topic shop.orders at kafka-1:9092"


def test_several_topics(tmp_path: Path) -> None:
    source = read(tmp_path, GOOD.replace("topic: shop.orders", "topic: [orders, returns]"))
    assert source.topics == ("orders", "returns")
    assert source.description == "json records of topics orders, returns at kafka-1:9092"


def test_everything(tmp_path: Path) -> None:
    more = """\
  starting: "2026-01-01T00:00:00Z"
  max_records_per_batch: 5000
  columns: {item: name}
  time_unit: ms
  before_commit: take
  kafka:
    security.protocol: sasl_ssl
    sasl.mechanism: scram-sha-512
    sasl.username: reader
    sasl.password: "secret:ORDERS"
"""
    source = read(tmp_path, GOOD.replace("  format: json\n", "  format: debezium-json\n" + more))
    assert source.starting == 1_767_225_600_000
    assert (source.max_records_per_batch, source.time_unit) == (5000, "ms")
    assert source.columns["item"].name == "name"
    assert source.options["kafka.sasl.password"] == "secret:ORDERS"
    assert source.ignore_unknown
    assert source.takes_uncommitted


@pytest.mark.parametrize(
    ("more", "place", "parts"),
    [
        ("  kafka: {acks: '0'}", "9:10", ["source.kafka", "kafka.acks", "all replicas"]),
        ("  kafka: {ssl.ca.location: /etc/passwd}", "9:10", ["kafka.ssl.ca.location", "ssl.ca.pem"]),
        ("  kafka: {sasl.password: hunter2}", "9:10", ["secret:NAME"]),
        ("  kafka: {sasl.username: me}", "9:10", ["no effect", "sasl_ssl"]),
        ("  kafka: {linger.ms: '5'}", "9:10", ["'linger.ms' has no meaning here", "sasl.username"]),
        ("  kafka: {bootstrap.servers: 'a:1'}", "9:10", ["'bootstrap.servers' has no meaning here"]),
        ("  starting: tomorrow", "9:13", ["source.starting", "'tomorrow'", "earliest, latest"]),
        ("  starting: '2026-01-01T00:00:00'", "9:13", ["source.starting", "Z"]),
        ("  max_records_per_batch: 0", "9:26", ["whole number"]),
        ("  time_unit: ms", "9:14", ["debezium-json"]),
        ("  path: ./in", "9:3", ["no such key"]),
        ("  options: {delimiter: x}", "9:24", ["no meaning for JSON"]),
    ],
)
def test_mistakes(tmp_path: Path, more: str, place: str, parts: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(tmp_path, GOOD.replace("  format: json\n", f"  format: json\n{more}\n"))
    lines = caught.value.message.replace(f"{tmp_path / 'p.yaml'}:", "").splitlines()
    assert "hunter2" not in caught.value.message
    line = next((line for line in lines if line.startswith(f"{place}: ")), None)
    assert line is not None, lines
    assert all(part in line for part in parts), line


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("  bootstrap_servers: kafka-1:9092\n", "", "source.bootstrap_servers: it is missing"),
        ("kafka-1:9092", "kafka-1", "source.bootstrap_servers: Option"),
        ("  topic: shop.orders\n", "", "source.topic: it is missing"),
        ("topic: shop.orders", "topic: a/b", "source.topic: Option"),
        ("topic: shop.orders", "topic: []", "source.topic: it is missing"),
        ("topic: shop.orders", "topic: [a, b, a]", "source.topic: 'a' stands there twice"),
        ("topic: shop.orders", "topic: [a, b/c]", "source.topic: Option 'kafka.topic' = 'b/c'"),
        ("format: json", "format: csv", "source.format: 'csv' is not possible"),
        ("format: json", "format: debezium-json\n  unknown_columns: error", "no meaning for debezium-json"),
    ],
)
def test_what_must_be_there(tmp_path: Path, old: str, new: str, part: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidArgument) as caught:
        read(tmp_path, GOOD.replace(old, new))
    assert part in caught.value.message


SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'


def test_avro_by_a_schema_in_a_file_or_here(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text(SCHEMA)
    source = read(tmp_path, GOOD.replace("format: json", "format: avro\n  schema_file: ./orders.avsc\n  schema_id: 7"))
    assert source.avro is not None
    assert (source.avro.schema.names, source.avro.registry_id) == (("id",), 7)
    here = read(
        tmp_path, GOOD.replace("format: json", f"format: avro\n  schema: '{SCHEMA}'\n  options: {{timezone: UTC}}")
    )
    assert here.avro is not None
    assert (here.avro.schema, here.avro.registry_id, here.text.timezone) == (source.avro.schema, None, "UTC")


@pytest.mark.parametrize(
    ("new", "part"),
    [
        ("format: avro", "source.schema_file: it is missing; give the schema"),
        (f"format: avro\n  schema: '{SCHEMA}'\n  schema_file: a.avsc", "source.schema_file: both are given"),
        ("format: avro\n  schema_file: ./none.avsc", "source.schema_file: './none.avsc' cannot be read: No such file"),
        ("format: avro\n  schema: '{}'", "source.schema: The Avro schema cannot be used: it is no record"),
        (f"format: avro\n  schema: '{SCHEMA}'\n  schema_id: seven", "source.schema_id"),
        (f"format: avro\n  schema: '{SCHEMA}'\n  options: {{delimiter: x}}", "no meaning for records of Avro"),
        (f"format: json\n  schema: '{SCHEMA}'", "source.schema: it is for avro; leave it out"),
        ("format: json\n  schema_id: 7", "source.schema_id: it is for avro; leave it out"),
    ],
)
def test_mistakes_of_avro(tmp_path: Path, new: str, part: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read(tmp_path, GOOD.replace("format: json", new))
    assert part in caught.value.message
