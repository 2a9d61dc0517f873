"""Serves a client's callbacks, so that reports never pile up in memory while its owner does nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from lakelog.log.kafka.errors import call_client, get_cause

_LONGEST_WAIT_S: Final = 0.2
_SHORTEST_WAIT_S: Final = 0.005
_STOP_WAIT_S: Final = 2.0
"""Many polls long, and short beside a publisher's lease."""


class Pollable(Protocol):
    """A client of confluent-kafka whose callbacks are served by polling."""

    def poll(self, timeout: float = -1, /) -> int:
        """Serves callbacks; waits so long for some."""
        ...


class Poller:
    """Polls a client on a thread of its own until it is stopped.

    SUBTLE: a stop cannot interrupt a poll. So each poll lasts no longer than a fraction of the client's age. A
    short-lived client, as each re-initialisation of a publisher opens, would otherwise wait 0.2 s for its end, three
    times as long as for all the rest.

    Args:
        client: The client.
        on_error: Called for errors that polling itself raises, for instance when the producer was fenced.
    """

    def __init__(self, client: Pollable, on_error: Callable[[KafkaError], None]) -> None:
        self._on_error = on_error
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(client,), name="lakelog-log-callbacks", daemon=True)
        self._thread.start()

    def _run(self, client: Pollable) -> None:
        began_s = time.monotonic()
        while not self._stopped.is_set():
            wait_s = min(max(_SHORTEST_WAIT_S, (time.monotonic() - began_s) / 4), _LONGEST_WAIT_S)
            try:
                call_client(partial(client.poll, wait_s))
            except KafkaException as e:
                self._on_error(get_cause(e))
                # The user of the client gets the error from the next call.
                self._stopped.wait(wait_s)

    def stop(self) -> bool:
        """Stops the thread. Blocks for up to 0.2 s, or 2 s when the wall clock was set back.

        Returns:
            Whether it has ended. SUBTLE: the client's waits end by the wall clock. One during which that is set back by
            an hour lasts an hour, unless something arrives. Its thread is left alone, and must keep its client.
        """
        self._stopped.set()
        self._thread.join(_STOP_WAIT_S)
        return not self._thread.is_alive()
