"""The record formats of logs in Kafka: rows become records and records rows, whole columns at once (semantics 4.4)."""

from lakelog.log.codecs.changes import (
    Changes,
    read_debezium_changes,
    read_debezium_keys,
    read_header_sequences,
    read_json_rows,
)
from lakelog.log.codecs.codec import EncodedChunk, LogCodec, LogForm
from lakelog.log.codecs.decode import DecodedRecords

__all__ = [
    "Changes",
    "DecodedRecords",
    "EncodedChunk",
    "LogCodec",
    "LogForm",
    "read_debezium_changes",
    "read_debezium_keys",
    "read_header_sequences",
    "read_json_rows",
]
