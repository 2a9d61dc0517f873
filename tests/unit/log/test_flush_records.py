"""Waiting for a client's records ends with its time."""

from __future__ import annotations

from typing import cast

from confluent_kafka import Producer

from lakelog.log.kafka.sending.producing import flush_records


class SlowProducer:
    """Has some records that are answered for after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.waits_s: list[float] = []

    def flush(self, timeout_s: float) -> int:
        self.waits_s.append(timeout_s)
        assert len(self.waits_s) < 1000, "nobody waits for so long"
        return 3 if len(self.waits_s) < self.looks else 0


def test_all_that_is_answered_for_is_waited_for() -> None:
    producer = SlowProducer(20)
    assert flush_records(cast(Producer, producer)) == 0
    assert len(producer.waits_s) == 20
    # Often at first, since an answer mostly comes within some milliseconds, and then less often.
    assert producer.waits_s[0] <= 0.001 < producer.waits_s[-1] <= 0.1


def test_what_is_not_answered_for_in_time_is_reported() -> None:
    producer = SlowProducer(10**6)
    assert flush_records(cast(Producer, producer), 0.0) == 3
    assert len(producer.waits_s) == 1
