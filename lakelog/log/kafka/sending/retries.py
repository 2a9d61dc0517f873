"""Repeats calls of the client library until they are answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from lakelog.log.kafka.errors import call_client, get_cause

_PAUSE_S: Final = 0.01
_POLL_S: Final = 0.5

_hanging_lock: Final = threading.Lock()
_hanging: Final[set[threading.Event]] = set()
"""For each call that was given up and has not returned: the event that it sets when it returns."""


def count_hanging() -> int:
    """The number of this process's calls that were given up and have not returned; each keeps a thread and a client."""
    with _hanging_lock:
        return len(_hanging)


def retry_until_acknowledged(call: Callable[[], None]) -> None:
    """Calls until there is an answer (R6): a call that timed out has changed nothing, and a repeat continues it."""
    _retry_until(call, threading.Event())


def retry_for(call: Callable[[], None], timeout_s: float, count_ahead: Callable[[], int] = lambda: 0) -> None:
    """As `retry_until_acknowledged`, but for a limited time, even if the call itself never returns.

    SUBTLE: librdkafka (2.16) ignores timeouts when it looks for a group's coordinator, and waits for ever if that has
    moved to another broker meanwhile. So the call runs on a thread that is then abandoned; its client must not be used
    any more.

    Args:
        call: The call; any thread may make it.
        timeout_s: The longest time without progress.
        count_ahead: The number of things that may delay the call, such as records on the same connection. While it
            falls, the call does not hang, however slow the brokers are.

    Raises:
        KafkaException: The call failed; `_TIMED_OUT`: it has no answer.
    """
    given_up = threading.Event()
    answered = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            _retry_until(call, given_up)
        except BaseException as e:
            failures.append(e)
        finally:
            answered.set()
            with _hanging_lock:
                _hanging.discard(answered)

    threading.Thread(target=run, name="lakelog-log-call", daemon=True).start()
    fewest, until_s = count_ahead(), time.monotonic() + timeout_s
    while not answered.wait(min(_POLL_S, max(0.0, until_s - time.monotonic()))):
        ahead, now_s = count_ahead(), time.monotonic()
        # Only a new minimum counts: numbers that rise and fall all the time are no progress.
        if ahead < fewest:
            fewest, until_s = ahead, now_s + timeout_s
        elif now_s >= until_s:
            given_up.set()
            with _hanging_lock:
                if not answered.is_set():
                    _hanging.add(answered)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {timeout_s:g} s"))
    if failures:
        raise failures[0]


def _retry_until(call: Callable[[], None], given_up: threading.Event) -> None:
    while not given_up.is_set():
        try:
            call_client(call)
            return
        except KafkaException as e:
            if not get_cause(e).retriable():
                raise
            time.sleep(_PAUSE_S)
