"""What librdkafka says of brokers that cannot be reached, as users are told it."""

from __future__ import annotations

from confluent_kafka import KafkaError

from lakelog.errors import PermissionDenied, Unavailable
from lakelog.log.kafka.errors import to_lakelog_error
from lakelog.log.kafka.sending.duplicate_check import DuplicateSendCheck

DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
MISTAKEN = KafkaError(
    KafkaError._TRANSPORT, "Disconnected: might be caused by incorrect security.protocol configuration"
)


def test_what_a_broker_did_is_not_forgotten_when_it_was_the_only_one() -> None:
    duplicate_check = DuplicateSendCheck()
    duplicate_check.on_error(DOWN)
    assert duplicate_check.last_error is DOWN
    duplicate_check.on_error(MISTAKEN)
    duplicate_check.on_error(DOWN)
    assert duplicate_check.last_error is MISTAKEN
    denied = KafkaError(KafkaError._AUTHENTICATION, "refused")
    duplicate_check.on_error(denied)
    assert duplicate_check.last_error is denied


def test_brokers_that_are_away_may_be_asked_by_a_wrong_protocol() -> None:
    error = to_lakelog_error(MISTAKEN, "The topic t could not be looked up", "kafka:9092")
    assert isinstance(error, Unavailable)
    assert "kafka:9092. Look whether they run" in error.message
    assert "the security.protocol of their port" in error.message


def test_a_certificate_that_is_not_known_is_reported_with_an_option_that_there_is() -> None:
    text = "SSL handshake failed: certificate verify failed: verify that ssl.ca.location is correctly configured"
    error = to_lakelog_error(KafkaError(KafkaError._SSL, text), "The topic t could not be made", "kafka:9092")
    assert isinstance(error, PermissionDenied)
    assert "'kafka.ssl.ca.pem'" in error.message
    assert "ssl.ca.location" not in error.message
