"""reliability R1 and R2 over a real broker: ends of transactions that come late or twice, zombies.

Each with the rule and, as its control, without it. A plain consumer judges.
"""

from __future__ import annotations

import pytest

from lakelog.errors import Fenced, LakelogError
from lakelog.log.protocol import LogProducer
from lakelog.testing.kafka_proxy import KafkaProxy
from lakelog.testing.log_history import LogViolation
from tests.e2e.log.scripted import Scripted

pytestmark = pytest.mark.e2e

TOOK_EFFECT = 0
INVALID_PRODUCER_EPOCH = 47


def test_an_end_that_comes_late_finds_another_epoch(scripted: Scripted, proxy: KafkaProxy) -> None:
    publisher = scripted.open_publisher()
    publisher.start()
    proxy.hold_ends()
    publisher.publish_next()
    assert proxy.held == 1, "no end of a transaction was kept back"
    codes: list[int] = []
    publisher.publish_next(lambda: codes.extend(proxy.release_ends()))
    publisher.publish_next()
    assert codes == [INVALID_PRODUCER_EPOCH]
    assert publisher.producer_reinits == 2, "who sent something twice starts afresh, once"
    assert scripted.find_violations(3) == set()


def test_without_a_producer_reinit_it_tears_the_next_snapshot(scripted: Scripted, proxy: KafkaProxy) -> None:
    publisher = scripted.open_publisher(goes_on_anyhow=True)
    publisher.start()
    proxy.hold_ends()
    publisher.publish_next()

    def let_the_end_arrive() -> None:
        assert proxy.release_ends() == [TOOK_EFFECT]
        scripted.wait_until_seen("2.0")

    with pytest.raises(LakelogError):
        publisher.publish_next(let_the_end_arrive)
    # By the rules again, it does not know that a part of it is there.
    publisher.start()
    publisher.publish_next()
    assert publisher.position == 2
    assert scripted.find_violations(2) >= {LogViolation.TORN, LogViolation.DUPLICATE}


def test_an_end_without_an_answer_is_followed_by_a_producer_reinit(scripted: Scripted, proxy: KafkaProxy) -> None:
    publisher = scripted.open_publisher()
    publisher.start()
    proxy.lose_end_answers()
    publisher.publish_next()
    assert proxy.ends >= 2, "the client asked only once"
    publisher.publish_next()
    assert publisher.producer_reinits == 2
    assert scripted.find_violations(2) == set()


def test_slow_ends_are_no_reason_for_a_producer_reinit(scripted: Scripted, proxy: KafkaProxy) -> None:
    publisher = scripted.open_publisher()
    publisher.start()
    proxy.delay_ends(0.1)
    for _ in range(3):
        publisher.publish_next()
    assert publisher.producer_reinits == 1
    assert scripted.find_violations(3) == set()


@pytest.mark.parametrize("sent", ["rows", "nothing"])
def test_a_zombie_is_fenced(scripted: Scripted, sent: str) -> None:
    zombie, successor = scripted.open_publisher(), scripted.open_publisher()
    zombie.publish_next()
    if sent == "rows":
        zombie.send()
    successor.publish_next()
    with pytest.raises(Fenced):
        zombie.commit() if sent == "rows" else zombie.publish_next()
    zombie.start()
    assert zombie.position == 2
    assert scripted.find_violations(2) == set()


def test_a_zombie_with_an_id_of_its_own_publishes_twice(scripted: Scripted) -> None:
    zombie, successor = scripted.open_publisher(process="-1"), scripted.open_publisher(process="-2")
    zombie.publish_next()
    successor.publish_next()
    zombie.publish_next()
    assert scripted.find_violations(2) >= {LogViolation.DUPLICATE}


def test_a_zombie_that_takes_its_id_back_must_read_the_position_again(scripted: Scripted) -> None:
    zombie, successor = scripted.open_publisher(), scripted.open_publisher()
    zombie.publish_next()
    successor.publish_next()
    believed = zombie.position
    take_back(zombie.producer)
    zombie.position = believed
    zombie.publish_next()
    assert scripted.find_violations(2) >= {LogViolation.DUPLICATE}


def take_back(producer: LogProducer) -> None:
    """What a fresh start without reading the position would be."""
    producer.start()
