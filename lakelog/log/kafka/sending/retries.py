"""Calls of the client library that are made until they are answered."""

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
"""Of each call that was given up and has not returned: what it sets when it does."""


def count_hanging() -> int:
    """How many calls of this process were given up and have not returned; each keeps a thread and its client."""
    with _hanging_lock:
        return len(_hanging)


def retry_until_acknowledged(call: Callable[[], None]) -> None:
    """Calls until it is answered (R6): a call that timed out has changed nothing and goes on where it was."""
    _retry_until(call, threading.Event())


def retry_for(call: Callable[[], None], timeout_s: float, count_ahead: Callable[[], int] = lambda: 0) -> None:
    """As `retry_until_acknowledged`, but for so long, also where the call itself never returns.

    SUBTLE: librdkafka (2.16) heeds no timeout where a group's coordinator is asked, and waits for ever for one that has
    moved to another broker meanwhile. So the call is made on a thread that is left alone then: its client must not be
    used any more.

    Args:
        call: Any thread may make it.
        timeout_s: How long nothing may happen.
        count_ahead: Of what may stand in its way, as records that go by the same connection. While there are fewer and
            fewer nobody hangs, be brokers as slow as they may.

    Raises:
        KafkaException: The call failed; `_TIMED_OUT`: it is not answered.
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
        # Fewer than ever: what comes and goes all the time is no progress.
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
