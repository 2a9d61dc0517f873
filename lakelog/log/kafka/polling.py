"""Serves a client's callbacks, so that reports never pile up in memory however long its owner does nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from lakelog.log.kafka.errors import call_client, get_cause

_WAKE_UP_S: Final = 0.2


class Pollable(Protocol):
    """A client of confluent-kafka whose callbacks are served by polling."""

    def poll(self, timeout: float = -1, /) -> int:
        """Serves callbacks, waiting so long for some."""
        ...


class Poller:
    """Polls a client on a thread of its own until it is stopped.

    Args:
        client: The client.
        note_error: Told of errors that polling itself raises, as of a producer that was fenced.
    """

    def __init__(self, client: Pollable, note_error: Callable[[KafkaError], None]) -> None:
        self._note_error = note_error
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(client,), name="lakelog-log-callbacks", daemon=True)
        self._thread.start()

    def _run(self, client: Pollable) -> None:
        while not self._stopped.is_set():
            try:
                call_client(lambda: client.poll(_WAKE_UP_S))
            except KafkaException as e:
                self._note_error(get_cause(e))
                # Whoever uses the client hears of it by his next call.
                self._stopped.wait(_WAKE_UP_S)

    def stop(self) -> None:
        """No callback runs any more when this returns; blocks for up to 0.2 s."""
        self._stopped.set()
        self._thread.join()
