"""Hands records to librdkafka, in the one loop over rows that its API requires."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Message, Producer

from lakelog.format.types.rowkind import RowKind
from lakelog.log.kafka.errors import call_client
from lakelog.log.records import INDEX_HEADER, KIND_HEADER, SEQUENCE_HEADER, EncodedRecords

Delivered = Callable[[KafkaError | None, Message], None]
Header = tuple[str, bytes]

_KINDS: Final[dict[int, Header]] = {kind.value: (KIND_HEADER, kind.text.encode()) for kind in RowKind}
_QUEUE_PAUSE_S: Final = 0.01
_CHUNK_ROWS: Final = 16_384
"""So many rows at a time become Python objects, which are many times as large as columns."""


def produce_records(
    producer: Producer,
    topic: str,
    records: EncodedRecords,
    owner: tuple[Header, ...],
    on_each: Delivered | None,
    on_last: Delivered,
) -> None:
    """Hands all records over in their order; blocks while too many wait to be sent.

    Args:
        producer: The client.
        topic: The topic to send to.
        records: At least one.
        owner: The headers of all of them.
        on_each: Called for each record but the last when it is in the topic, or cannot be; None: not needed.
        on_last: Called for the last one.
    """
    produce = producer.produce
    partition = records.partition
    last = len(records) - 1
    for start in range(0, last, _CHUNK_ROWS):
        chunk = slice(start, min(start + _CHUNK_ROWS, last))
        for key, value, headers in _to_rows(records, chunk, owner):
            try:
                # Positional arguments: keywords cost a third of the call.
                produce(topic, value, key, partition, on_each, None, 0, headers)
            except BufferError:
                _produce_when_queue_has_space(producer, topic, value, key, partition, headers, on_each)
    for key, value, headers in _to_rows(records, slice(last, last + 1), owner):
        _produce_when_queue_has_space(producer, topic, value, key, partition, headers, on_last)


def flush_records(producer: Producer, timeout_s: float = math.inf) -> int:
    """Waits until all records are answered; returns how many are not within that time.

    Raises:
        KafkaException: The client failed for good.
    """
    deadline = time.monotonic() + timeout_s
    # The client's own wait checks every 10 ms if another thread serves the answers.
    pause_s = 0.001
    while left := call_client(partial(producer.flush, pause_s)):
        if time.monotonic() >= deadline:
            return left
        pause_s = min(pause_s * 1.3, 0.1)
    return 0


def _to_rows(records: EncodedRecords, chunk: slice, owner: tuple[Header, ...]) -> Iterator[tuple[Any, Any, list[Any]]]:
    """Key, value and headers of each record."""
    size = chunk.stop - chunk.start
    values = _to_list(records.values[chunk])
    keys = [None] * size if records.keys is None else _to_list(records.keys[chunk])
    kinds = [_KINDS[kind] for kind in records.kinds[chunk].tolist()]
    indexes = zip(
        itertools.repeat(INDEX_HEADER),
        _to_list(pa.array(records.indexes[chunk]).cast(pa.string()).cast(pa.binary())),
        strict=False,
    )
    if records.sequences is None:
        return zip(
            keys, values, ([*owner, index, kind] for index, kind in zip(indexes, kinds, strict=True)), strict=True
        )
    sequences = zip(itertools.repeat(SEQUENCE_HEADER), _to_list(records.sequences[chunk]), strict=False)
    headers = ([*owner, *each] for each in zip(indexes, kinds, sequences, strict=True))
    return zip(keys, values, headers, strict=True)


def _to_list(column: pa.Array) -> list[Any]:
    # The way through numpy takes a third of the time of to_pylist.
    objects: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return objects.tolist()


def _produce_when_queue_has_space(
    producer: Producer,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    partition: int,
    headers: list[Any],
    on_delivery: Delivered | None,
) -> None:
    while True:
        try:
            producer.produce(topic, value, key, partition, on_delivery=on_delivery, headers=headers)
            return
        except BufferError:
            # The queue gets space when records are answered or time out; the next call then reports which.
            call_client(lambda: producer.poll(_QUEUE_PAUSE_S))
