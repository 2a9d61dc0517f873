"""Clients that do the same work again and again, and keep the times that it took."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer

import lakelog
from bench.measure import WrongAnswerError
from lakelog.sdk.catalog import Catalog
from lakelog.testing import EmbeddedStack

KEYED: Final = "s.keyed"
QUEUE: Final = "s.queue"
SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("sent_s", pa.float64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)
KEYS: Final = 10_000
ROWS: Final = 100
_EMPTY_QUEUE_EVERY: Final = 300
_WITHIN_S: Final = 120.0


class Client(ABC):
    """A thread that does its work again and again until it is stopped.

    Args:
        stack: The services.
        every_s: Seconds from the beginning of one piece of work to that of the next.
    """

    def __init__(self, stack: EmbeddedStack, every_s: float = 0.0) -> None:
        self.stack = stack
        self.stopping = threading.Event()
        self._every_s = every_s
        self._times_ms: list[float] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @abstractmethod
    def work(self, catalog: Catalog, number: int) -> None:
        """Does the work once; the first time with number 0."""

    def took_since(self, began_s: float) -> None:
        """Notes that a piece of work has ended which began at this time of the wall clock."""
        self._times_ms.append(1000 * (time.time() - began_s))

    def drain_times(self) -> list[float]:
        """Milliseconds of each piece of work since the last call."""
        times, self._times_ms = self._times_ms, []
        return times

    def check(self) -> None:
        """Raises what ended the thread.

        Raises:
            WrongAnswerError: Something did.
        """
        if self._error is not None:
            raise WrongAnswerError(f"{type(self).__name__} ended with {self._error!r}") from self._error

    def stop(self) -> None:
        """Ends the thread.

        Raises:
            WrongAnswerError: It failed, or does not end.
        """
        self.stopping.set()
        self._thread.join(_WITHIN_S)
        self.check()
        if self._thread.is_alive():
            raise WrongAnswerError(f"{type(self).__name__} did not end within {_WITHIN_S:g} s.")

    def _run(self) -> None:
        try:
            with lakelog.connect(self.stack.target, reader=self.stack.reader_target) as catalog:
                number, next_s = 0, time.monotonic()
                while not self.stopping.wait(max(0.0, next_s - time.monotonic())):
                    # A machine that stood still does not catch up.
                    next_s = max(next_s, time.monotonic()) + self._every_s
                    self.work(catalog, number)
                    number += 1
        except BaseException as error:
            self._error = error


class Upserts(Client):
    """Upserts rows with random keys, and knows the number of the last upsert of each key."""

    def __init__(self, stack: EmbeddedStack, every_s: float) -> None:
        self.latest: dict[int, int] = {}
        self.rows = 0
        self._rng = np.random.default_rng(5)
        super().__init__(stack, every_s)

    def work(self, catalog: Catalog, number: int) -> None:
        keys = self._rng.choice(KEYS, ROWS, replace=False)
        began_s = time.time()
        catalog.table(KEYED).upsert(_make_rows(keys, number))
        self.took_since(began_s)
        self.latest.update(dict.fromkeys(keys.tolist(), number))
        self.rows += ROWS


class Appends(Client):
    """Appends to a queue, which an overwrite makes short again now and then."""

    def __init__(self, stack: EmbeddedStack, every_s: float) -> None:
        self.rows = 0
        super().__init__(stack, every_s)

    def work(self, catalog: Catalog, number: int) -> None:
        table, rows = catalog.table(QUEUE), _make_rows(np.arange(ROWS), number)
        began_s = time.time()
        if number % _EMPTY_QUEUE_EVERY == 0:
            table.overwrite(rows)
            self.rows = ROWS
        else:
            table.append(rows)
            self.rows += ROWS
        self.took_since(began_s)


class Follower(Client):
    """Subscribes to the keyed table through the reader service, and knows its rows from the changes alone."""

    def __init__(self, stack: EmbeddedStack) -> None:
        self.known: dict[int, int] = {}
        super().__init__(stack)

    def work(self, catalog: Catalog, number: int) -> None:
        with catalog.table(KEYED).subscribe("latest-full") as stream:
            while (batch := stream.read(1.0)) is not None or not self.stopping.is_set():
                if batch is None:
                    continue
                new = batch.data.filter(pc.is_in(batch.data["_row_kind"], pa.array(["+I", "+U"])))
                self.known.update(zip(new["id"].to_pylist(), new["number"].to_pylist(), strict=True))
                if new.num_rows:
                    self.took_since(pc.max(new["sent_s"]).as_py())


class PlainConsumer(Client):
    """Reads the topic of the keyed table as any Kafka consumer does, and counts the records."""

    def __init__(self, stack: EmbeddedStack) -> None:
        self.records = 0
        super().__init__(stack)

    def work(self, catalog: Catalog, number: int) -> None:
        topic = catalog.metastore.get_log(catalog.table(KEYED).uuid).topic
        settings = {"group.id": "steady", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        consumer = Consumer({"bootstrap.servers": self.stack.kafka, **settings})
        consumer.subscribe([topic])
        while (records := consumer.consume(1000, 2.0)) or not self.stopping.is_set():
            for record in records:
                if record.error():
                    raise WrongAnswerError(f"{topic}: {record.error()}")
                self.records += 1
        consumer.close()


class Visitors(Client):
    """Programs that come, read a little and go: what each leaves would add up."""

    def work(self, catalog: Catalog, number: int) -> None:
        began_s = time.time()
        with (
            lakelog.connect(self.stack.target, reader=self.stack.reader_target) as own,
            own.table(QUEUE).subscribe("latest-full") as stream,
        ):
            stream.read(30.0)
            own.table(KEYED).scan(filter=f"id < {ROWS}").count()
        self.took_since(began_s)


def _make_rows(keys: np.ndarray, number: int) -> pa.Table:
    same = [number, time.time(), "x" * 100]
    return pa.table([keys, *([value] * len(keys) for value in same)], schema=SCHEMA)
