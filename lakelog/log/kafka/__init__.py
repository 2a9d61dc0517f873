"""The log over a real broker, by confluent-kafka (librdkafka)."""

from lakelog.log.kafka.log import KafkaLog, open_kafka_log
from lakelog.log.kafka.settings import KafkaSettings

__all__ = ["KafkaLog", "KafkaSettings", "open_kafka_log"]
