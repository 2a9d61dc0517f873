"""A cluster of Kafka brokers as a log."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.log.kafka.admin import KafkaTopicAdmin
from lakelog.log.kafka.reader import KafkaReader
from lakelog.log.kafka.sending.producer import KafkaProducer
from lakelog.log.kafka.sending.uncommitted import KafkaUncommittedSender
from lakelog.log.kafka.settings import KafkaSettings, to_settings
from lakelog.log.protocol import Log
from lakelog.log.secrets import Secrets


class KafkaLog(Log):
    """See `lakelog.log.protocol.Log`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def open_admin(self) -> KafkaTopicAdmin:
        return KafkaTopicAdmin(self._settings)

    def open_producer(self, topic: str, transactional_id: str, group: str) -> KafkaProducer:
        return KafkaProducer(self._settings, topic, transactional_id, group)

    def open_reader(self, topic: str) -> KafkaReader:
        return KafkaReader(self._settings, topic)

    def open_uncommitted_sender(self, topic: str) -> KafkaUncommittedSender:
        return KafkaUncommittedSender(self._settings, topic)


def open_kafka_log(options: Mapping[str, str], secrets: Secrets) -> KafkaLog:
    """The log of a table with these options; connects to no broker yet.

    Raises:
        InvalidArgument: This service does not know a secret, or no brokers are named.
    """
    return KafkaLog(to_settings(options, secrets))
