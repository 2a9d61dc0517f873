"""When a replica with many subscriptions goes, they come back over a second, and to all replicas that are left."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

import lakelog.reads.streams.remote_stream as remote_module
from lakelog.client.connection.reader_target import ReaderTarget, parse_reader_targets
from lakelog.client.connection.retry import RetryPolicy
from lakelog.clock import SystemClock
from lakelog.errors import Unavailable
from lakelog.reads.streams.remote_stream import RemoteFollower
from lakelog.rpc.v1 import reader_pb2

SUBSCRIPTIONS = 2000


def count_most_in_100_ms(waits_s: Sequence[float]) -> int:
    """The most that come back within a tenth of a second."""
    return max(Counter(int(wait_s * 10) for wait_s in waits_s).values())


def waits_of(policy: RetryPolicy) -> list[float]:
    rng = random.Random(7)
    return [policy.come_back_s(1, rng.random()) for _ in range(SUBSCRIPTIONS)]


def test_they_come_back_over_a_second() -> None:
    assert count_most_in_100_ms(waits_of(RetryPolicy())) < SUBSCRIPTIONS / 10 * 1.3
    assert max(waits_of(RetryPolicy())) <= 1


def test_control_without_the_spread_they_come_back_at_once() -> None:
    assert count_most_in_100_ms(waits_of(RetryPolicy(spread_s=0.001))) == SUBSCRIPTIONS


def test_later_tries_wait_as_long_as_all_others() -> None:
    policy = RetryPolicy()
    assert [policy.come_back_s(tries, 1.0) for tries in (1, 6, 7, 40)] == [1.0, 1.6, 2.0, 2.0]
    assert [policy.backoff_s(tries, 1.0) for tries in (1, 2, 40)] == [0.05, 0.1, 2.0]


@dataclass
class _Replica:
    """A stream that opens at every replica but those that are gone, and notes where."""

    opened: Counter[str]
    gone: set[str]
    metadata: tuple[tuple[str, str], ...] = ()
    target: str = field(default="")

    def __call__(self, reader: ReaderTarget, target: object, start: object, request_id: str) -> _Replica:
        return _Replica(self.opened, self.gone, target=str(target))

    def open(self) -> reader_pb2.SubscribeOpened | Unavailable:
        if self.target in self.gone:
            return Unavailable("gone")
        self.opened[self.target] += 1
        return reader_pb2.SubscribeOpened()

    def close(self) -> None:
        """There is nothing to close."""


def come_back(monkeypatch: pytest.MonkeyPatch, draw: Callable[[], float]) -> list[int]:
    """How many of the subscriptions of one of four replicas each of the others gets when it goes."""
    targets = [f"127.0.0.1:{port}" for port in range(7000, 7004)]
    opened: Counter[str] = Counter()
    replicas = _Replica(opened, set())
    monkeypatch.setattr(remote_module, "_Call", replicas)
    reader = parse_reader_targets(",".join(targets), tls=None, token=None)
    policy = RetryPolicy(spread_s=1e-9, first_backoff_s=1e-9)
    followers = []
    for _ in range(300):
        rng = iter([0.0])
        follower = RemoteFollower(
            reader,
            reader_pb2.SubscribeStart(),
            policy=policy,
            clock=SystemClock(),
            rng=lambda rng=rng: next(rng, None) or draw(),  # type: ignore[misc]
        )
        followers.append(follower)
        follower._next = 0
        follower.open()
    assert opened == {targets[0]: 300}
    replicas.gone.add(targets[0])
    for follower in followers:
        assert follower._call is not None
        follower._come_back(follower._call, Unavailable("gone"))
    return [opened[target] for target in targets[1:]]


def test_the_subscriptions_of_a_replica_spread_over_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = come_back(monkeypatch, random.Random(3).random)
    assert sum(found) == 300
    assert min(found) > 70


def test_control_without_a_random_choice_one_replica_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert come_back(monkeypatch, lambda: 0.0) == [300, 0, 0]
