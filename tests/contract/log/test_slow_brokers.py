"""Brokers that take records slowly, as behind a long line or a quota: what is slow is waited for, what hangs is not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from lakelog.errors import Unavailable
from lakelog.log.kafka import KafkaLog, KafkaSettings
from lakelog.log.kafka.sending import producer as producer_module
from lakelog.log.kafka.sending.retries import retry_for
from lakelog.log.protocol import LogProducer, LogReader
from lakelog.testing.kafka_proxy import KafkaProxy
from tests.contract.log.making import make_position, make_records, make_snapshot

RECORD_BYTES = 100_000
RECORDS = 30
PIECE_S = 0.04
"""For up to 64 KB; all records take some 2 s."""

STALL_S = 0.5


@pytest.fixture
def log(kafka_log: KafkaLog) -> KafkaLog:
    return kafka_log


@pytest.fixture
def slow(kafka_settings: KafkaSettings, topic: str) -> Iterator[tuple[KafkaProxy, LogProducer]]:
    """A producer on a line, which is quick so far; each request takes one record or two."""
    with KafkaProxy(int(kafka_settings.servers.rpartition(":")[2])) as proxy:
        through = KafkaLog(KafkaSettings({"bootstrap.servers": proxy.target}, RECORD_BYTES * 3 // 2))
        producer = through.open_producer(topic, f"{topic}-publisher", f"{topic}-position")
        producer.start()
        yield proxy, producer
        proxy.heal()
        producer.close()


def send_slowly(proxy: KafkaProxy, producer: LogProducer) -> None:
    producer.begin()
    proxy.delay(PIECE_S)
    values: list[str | None] = [f"a={os.urandom(RECORD_BYTES // 2).hex()}" for _ in range(RECORDS)]
    producer.send(make_records(0, values), make_snapshot(1))
    producer.commit(make_position(1))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_module, "_POSITION_TIMEOUT_S", STALL_S)


@pytest.mark.usefixtures("impatient")
def test_a_position_waits_for_the_records_before_it(slow: tuple[KafkaProxy, LogProducer], reader: LogReader) -> None:
    send_slowly(*slow)
    reader.assign({0: 0})
    count = 0
    while found := len(reader.fetch(100, 5)):
        count += found
        if count == RECORDS:
            break
    assert count == RECORDS


@pytest.mark.usefixtures("impatient")
def test_the_control_gives_it_up_whenever_it_is_tried(
    slow: tuple[KafkaProxy, LogProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def heed_nothing(call: Callable[[], None], timeout_s: float, _: Callable[[], int]) -> None:
        retry_for(call, timeout_s)

    monkeypatch.setattr(producer_module, "retry_for", heed_nothing)
    with pytest.raises(Unavailable, match="no answer"):
        send_slowly(*slow)
    proxy, producer = slow
    proxy.heal()
    assert producer.start() is None
