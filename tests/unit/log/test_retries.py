"""Calls of the client library: repeated while that may help, and left alone where they never return."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from lakelog.log.kafka.sending.retries import count_hanging, retry_for, retry_until_acknowledged

RETRIABLE = KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, "later", False, True))
FINAL = KafkaException(KafkaError(KafkaError.INVALID_REQUEST, "never"))


class Call:
    """Answers by errors first."""

    def __init__(self, *errors: KafkaException) -> None:
        self._errors: Iterator[KafkaException] = iter(errors)
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        for error in self._errors:
            raise error


def test_what_may_help_is_repeated() -> None:
    for call in (Call(RETRIABLE, RETRIABLE), Call(RETRIABLE, RETRIABLE)):
        retry_for(call, 10)
        assert call.count == 3
    call = Call(RETRIABLE)
    retry_until_acknowledged(call)
    assert call.count == 2


def test_other_failures_are_reported() -> None:
    for call in (retry_until_acknowledged, lambda call: retry_for(call, 10)):
        with pytest.raises(KafkaException) as caught:
            call(Call(RETRIABLE, FINAL))
        assert caught.value is FINAL


def test_a_call_that_never_returns_is_given_up_and_not_repeated() -> None:
    go_on = threading.Event()
    calls = []

    def hang() -> None:
        calls.append(threading.current_thread())
        go_on.wait(30)
        raise RETRIABLE

    before = count_hanging()
    with pytest.raises(KafkaException) as caught:
        retry_for(hang, 0.05)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT
    assert count_hanging() == before + 1
    assert calls[0].daemon, "a process must be able to end in spite of it"
    go_on.set()
    calls[0].join(10)
    assert len(calls) == 1
    # What returns at last holds nothing any more.
    assert count_hanging() == before


def test_who_waits_after_records_that_go_on_is_not_given_up() -> None:
    ahead = iter([5, 4, 3, 2])
    answered = threading.Event()

    def count_ahead() -> int:
        left = next(ahead, None)
        if left is None:
            answered.set()
            return 1
        return left

    # Each look comes when the time has passed in which nothing may happen.
    retry_for(lambda: _wait(answered), 0.1, count_ahead)


@pytest.mark.parametrize("ahead", [[7], [7, 8]], ids=["stand", "come and go"])
def test_records_that_do_not_become_fewer_are_no_reason_to_wait_on(ahead: list[int]) -> None:
    answered = threading.Event()
    left = itertools.cycle(ahead)
    with pytest.raises(KafkaException) as caught:
        retry_for(lambda: _wait(answered), 0.05, lambda: next(left))
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT
    answered.set()


def _wait(event: threading.Event) -> None:
    assert event.wait(30)
