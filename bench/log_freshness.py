"""From the beginning of a write to the arrival of its rows at a plain Kafka consumer, ten writes of 100 rows a second.

The consumer reads what is committed and knows nothing of lakelog. The reference is Kafka itself: as many records,
written by a plain producer to a plain topic, without transactions.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

import lakelog
from bench.context import Bench
from bench.freshness import EVERY_S, ROWS, WARM_UPS
from bench.measure import Figure, WrongAnswerError, absolute
from bench.shapes import q1, q1_schema
from lakelog.log.kafka import open_kafka_log
from lakelog.log.records import TopicSpec
from lakelog.log.secrets import Secrets
from lakelog.sdk.tables.table import Table
from lakelog.testing import embedded_stack

_SECONDS: Final = 60
_WITHIN_S: Final = 120.0
_TARGETS_MS: Final = {"transactional": 30, "eventual": 10}


def measure_log(bench: Bench) -> Iterator[Figure]:
    """Latencies of a keyed table's log, by consistency, and of a plain producer and consumer."""
    count = bench.scaled(int(_SECONDS / EVERY_S)) + WARM_UPS
    with embedded_stack(bench.folder / "stack", services=["metastore", "publisher"], kafka=True) as stack:
        with lakelog.connect(stack.target) as catalog:
            catalog.create_database("b")
            for consistency, target in _TARGETS_MS.items():
                options = {"log.system": "kafka", "log.consistency": consistency}
                table = catalog.create_table(f"b.{consistency}", q1_schema(), primary_key=["id"], options=options)
                topic = catalog.metastore.get_log(table.uuid).topic

                latencies_ms = _measure(stack.kafka, topic, count, partial(_upsert, table))
                yield from _to_figures(f"log, {consistency}", latencies_ms, target)
        yield from _to_figures("Kafka alone", _measure_kafka(stack.kafka, count), None)


def _upsert(table: Table, number: int) -> None:
    table.upsert(q1(np.arange(ROWS) + ROWS * (number % 10), number))


def _to_figures(name: str, latencies_ms: list[float], target: float | None) -> Iterator[Figure]:
    p50, p95, p99 = np.percentile(latencies_ms[WARM_UPS:], [50, 95, 99])
    yield absolute(f"{name}, p50", "ms", [float(p50)], target=target)
    yield absolute(f"{name}, p95", "ms", [float(p95)])
    yield absolute(f"{name}, p99", "ms", [float(p99)])


def _measure_kafka(brokers: str, count: int) -> list[float]:
    log = open_kafka_log({"kafka.bootstrap.servers": brokers}, Secrets({}))
    with contextlib.closing(log.open_admin()) as admin:
        admin.create_topic(TopicSpec("plain", 1))
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})
    value = b"x" * 300

    def write(_number: int) -> None:
        for _ in range(ROWS):
            producer.produce("plain", value)
        producer.flush()

    return _measure(brokers, "plain", count, write)


def _measure(brokers: str, topic: str, count: int, write: Callable[[int], None]) -> list[float]:
    """Milliseconds from the beginning of each write to the arrival of the last of its rows.

    Raises:
        WrongAnswerError: Rows are missing, or there twice.
    """
    arrived_s: list[float] = []
    failures: list[BaseException] = []

    def follow() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": "bench",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 500,
            }
        )
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        end_s = time.perf_counter() + _WITHIN_S + count * EVERY_S
        try:
            while len(arrived_s) < count * ROWS and time.perf_counter() < end_s:
                # More than one at once would wait for all of them.
                first = consumer.poll(0.5)
                for message in [] if first is None else [first, *consumer.consume(1000, 0)]:
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    arrived_s.append(time.perf_counter())
            arrived_s.extend(time.perf_counter() for _ in consumer.consume(1000, 1.0))
        except BaseException as error:
            failures.append(error)
        finally:
            consumer.close()

    follower = threading.Thread(target=follow)
    follower.start()
    begun_s = []
    next_s = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, next_s - time.perf_counter()))
        next_s += EVERY_S
        begun_s.append(time.perf_counter())
        write(number)
    follower.join()
    if failures:
        raise failures[0]
    if len(arrived_s) != count * ROWS:
        raise WrongAnswerError(f"{topic}: {len(arrived_s)} of {count * ROWS} rows came")
    return [1000 * (arrived - begun) for arrived, begun in zip(arrived_s[ROWS - 1 :: ROWS], begun_s, strict=True)]
