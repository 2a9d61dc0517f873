"""Tables with logs on a real broker, their publishers in this process, and a consumer that knows nothing of lakelog."""

from __future__ import annotations

import io
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Consumer, TopicPartition

from lakelog.clock import SystemClock
from lakelog.log.kafka import open_kafka_log
from lakelog.log.secrets import read_secrets
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.logs.brokers import Brokers
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases
from tests.conformance.drivers import SdkDriver
from tests.conformance.language import Step, TableSpec, to_text
from tests.conformance.stream_drivers import compact
from tests.conformance.stream_language import Act, Alter, Compact
from tests.support.log.logging_tables import HandPublisher

_WAIT_S = 60.0
_AVRO = {"INT": "int", "BIGINT": "long", "STRING": "string"}
_OPS = {"+I": "c", "+U": "u", "-D": "d", "-U": "d"}


@dataclass(frozen=True)
class PlainRecord:
    """What a consumer gets."""

    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, str]

    @property
    def kind(self) -> str:
        """What became of the row."""
        return self.headers["kind"]

    @property
    def snapshot(self) -> int:
        """Which brought it."""
        return int(self.headers["snapshot"])


class PlainTopics:
    """confluent-kafka's consumer as documented for Python, reading whole topics."""

    def __init__(self, servers: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"plain-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )

    def read(self, topic: str) -> list[PlainRecord]:
        """All committed records, by partition in their order."""
        partitions = self._consumer.list_topics(topic, timeout=10).topics[topic].partitions
        firsts = {p: self._consumer.get_watermark_offsets(TopicPartition(topic, p))[0] for p in partitions}
        self._consumer.assign([TopicPartition(topic, p, first) for p, first in firsts.items()])
        ended: set[int | None] = set()
        found: list[PlainRecord] = []
        while len(ended) < len(partitions):
            message = self._consumer.poll(10)
            assert message is not None, f"nothing more came of {topic}"
            error = message.error()
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                ended.add(message.partition())
                continue
            headers: Any = message.headers() or []
            found.append(
                PlainRecord(
                    message.partition() or 0,
                    message.offset() or 0,
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    {name: value.decode() for name, value in headers},
                )
            )
        self._consumer.unassign()
        return sorted(found, key=lambda each: (each.partition, each.offset))

    def close(self) -> None:
        """Ends its connections."""
        self._consumer.close()


class LogStage:
    """Makes tables with logs, writes and publishes them. One metastore and one broker for all."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.servers = servers

        async def open_store() -> Store:
            return MemoryStore(SystemClock())

        brokers = Brokers([(servers,)], lambda options: open_kafka_log(options, read_secrets({})))
        self.metastore = in_process(
            open_store, lambda store: UseCases(store, f"file://{folder}/warehouse/", brokers=brokers)
        )
        self.catalog = Catalog(self.metastore, LocationStores())
        self.plain = PlainTopics(servers)
        self._sdk = SdkDriver(self.catalog)
        self._publishers: dict[str, HandPublisher] = {}

    def create(self, table: TableSpec, form: Mapping[str, str]) -> str:
        """A table whose log has a form; `{unique}` in its options is a name that nobody else has."""
        options = {"log.system": "kafka", **form, **table.options}
        options = {key: value.replace("{unique}", f"conformance-{uuid.uuid4().hex}") for key, value in options.items()}
        return self._sdk.create(TableSpec(table.columns, table.key, table.partition, options))

    def table(self, name: str) -> Table:
        """By its name."""
        return self.catalog.table(name)

    def topic(self, name: str) -> str:
        """A table's topic."""
        return self.metastore.get_log(self.table(name).uuid).topic

    def act(self, name: str, table: TableSpec, act: Act) -> None:
        """Does something to a table."""
        if isinstance(act, Step):
            self._sdk.apply(name, table, act)
        elif isinstance(act, Compact):
            compact(self.table(name))
        elif isinstance(act, Alter):
            self.table(name).alter(set=dict(act.options))
        else:
            raise AssertionError(f"{act} is for the stream")

    def publish(self, name: str) -> None:
        """All that is committed."""
        table = self.table(name)
        if name not in self._publishers:
            self._publishers[name] = HandPublisher(
                self.metastore, lambda info: open_kafka_log(info.options, read_secrets({})), table
            )
        self._publishers[name].publish()

    def forget_publisher(self, name: str) -> None:
        """As one that died: whoever publishes next is another."""
        self._publishers.pop(name).release()

    def read(self, name: str) -> list[PlainRecord]:
        """What a plain consumer finds, with all that is published: ends of transactions are written behind answers."""
        ends = self.metastore.get_publish_state(self.table(name).uuid).offsets
        give_up_s = time.monotonic() + _WAIT_S
        while True:
            found = self.plain.read(self.topic(name))
            at = {record.partition: record.offset + 1 for record in found}
            if all(at.get(partition, 0) >= end for partition, end in enumerate(ends)):
                return found
            assert time.monotonic() < give_up_s, f"{at} of {ends}"

    def find_commits(self, name: str) -> dict[int, tuple[str, int]]:
        """Uuid and time, in milliseconds, of each snapshot."""
        snapshots = self.metastore.list_snapshots(self.table(name).uuid).snapshots
        return {each.snapshot_id: (each.snapshot_uuid, each.committed_at_ms) for each in snapshots}

    def end(self, name: str) -> None:
        """Drops a table, and its topic with it."""
        publisher = self._publishers.pop(name, None)
        if publisher is not None:
            publisher.close()
        self.catalog.drop_table(name)

    def close(self) -> None:
        """Ends everything."""
        for publisher in self._publishers.values():
            publisher.close()
        self.plain.close()
        self.metastore.close()


def to_message(table: TableSpec, form: Mapping[str, str], record: PlainRecord) -> str:
    """A record as cases write it, read by stock decoders."""
    encoding = form.get("log.format", "debezium-json")
    if record.value is None:
        return f"{record.kind} #{to_key(table, form, record)}"
    names = table.schema.names
    if encoding == "debezium-json":
        change = json.loads(record.value)
        assert list(change) == ["before", "after", "source", "op", "ts_ms"]
        assert change["op"] == _OPS[record.kind]
        reported = [_show(change[side], names) for side in ("before", "after") if change[side] is not None]
        assert (change["after"] is None) is (change["op"] == "d"), "what is gone has no new row"
        return f"{record.kind} {' > '.join(reported)}"
    row = json.loads(record.value) if encoding == "json" else _read_avro(table, names, record.value, table.key)
    return f"{record.kind} {_show(row, names)}"


def to_key(table: TableSpec, form: Mapping[str, str], record: PlainRecord) -> str:
    """A record's key as cases write it."""
    assert record.key is not None
    if form.get("log.key.format") == "avro":
        key = _read_avro(table, list(table.key), record.key, table.key)
    else:
        key = json.loads(record.key)
    return _show(key, list(table.key))


def _show(row: Mapping[str, Any], names: list[str]) -> str:
    assert list(row) == names
    return "|".join(to_text(value) for value in row.values())


def _read_avro(table: TableSpec, names: list[str], value: bytes, plain: tuple[str, ...]) -> dict[str, Any]:
    """By the schema that the documentation describes."""
    types = dict(text.split(" ")[:2] for text in table.columns.split(", "))
    fields = [
        {"name": name, "type": _AVRO[types[name]] if name in plain else ["null", _AVRO[types[name]]]} for name in names
    ]
    schema: Any = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    stream = io.BytesIO(value)
    row: Any = fastavro.schemaless_reader(stream, schema, None)
    assert not stream.read(), "one datum and nothing else"
    return dict(row)
