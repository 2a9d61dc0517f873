from __future__ import annotations

import pytest

from lakelog.cli.up.kafka_choice import KafkaChoice, choose_kafka
from lakelog.errors import InvalidArgument


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ((False, None, None), KafkaChoice()),
        ((True, None, None), KafkaChoice(port=9092)),
        ((True, 19092, None), KafkaChoice(port=19092)),
        ((False, None, "a:1, b:2"), KafkaChoice(servers="a:1,b:2")),
        # The user's takes the place of an own one.
        ((True, None, "a:1"), KafkaChoice(servers="a:1")),
    ],
)
def test_which_kafka_is_used(given: tuple[bool, int | None, str | None], choice: KafkaChoice) -> None:
    assert choose_kafka(*given) == choice


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((False, 9093, None), r"--kafka-port 9093 .* Add --kafka\."),
        ((True, 9093, "a:1"), r"--kafka-port 9093 .* names another\. Leave one out\."),
        ((False, None, "a"), r"--kafka-bootstrap-servers 'a': .*host:port"),
        ((False, None, "a:1,"), "--kafka-bootstrap-servers 'a:1,'"),
        ((False, None, ""), "--kafka-bootstrap-servers ''"),
    ],
)
def test_what_does_not_go_together_is_refused(given: tuple[bool, int | None, str | None], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        choose_kafka(*given)
