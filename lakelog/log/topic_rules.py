"""What a table's topic must be like, so that its log keeps its promises (reliability R9). Pure."""

from __future__ import annotations

import re
from typing import Final

from lakelog.log.records import TopicSpec, TopicState
from lakelog.options.declared.kafka_values import MAX_TOPIC_LENGTH

CLEANUP_POLICY: Final = "cleanup.policy"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
MIN_INSYNC: Final = "min.insync.replicas"
MIN_COMPACTION_LAG_MS: Final = "min.compaction.lag.ms"

UNCOMPACTED_MS: Final = 3_600_000
"""A topic retains all records of each key for so long: a reader that is less late misses no change."""

FRAMING_BYTES: Final = 512
"""The size of a batch with one record, without key, value and headers: 61 bytes for the batch, at most 36 for the
record, and at most 20 for the lengths of each header."""

_APPEND_TIME: Final = "LogAppendTime"
_FOR_EVER: Final = -1
_UNBOUNDED: Final = -1


def make_topic_name(database: str, table: str, table_uuid: str, generation: int) -> str:
    """The generated name of a table's topic: `<database>_<table>_<uuid>`, so that no other table ever has it.

    A generation after the first has its number at the end. Names that would be too long are cut at their parts' ends.
    """
    end = f"_{table_uuid}" if generation == 1 else f"_{table_uuid}_{generation}"
    begin = re.sub(r"[^A-Za-z0-9._-]", "_", f"{database}_{table}")
    return begin[: MAX_TOPIC_LENGTH - len(end)] + end


def to_topic_settings(spec: TopicSpec) -> dict[str, str]:
    """The settings of a new topic, by their Kafka names."""
    policy = "delete"
    if spec.compact:
        policy = "compact" if spec.retention_ms is None else "compact,delete"
    lag = {MIN_COMPACTION_LAG_MS: str(UNCOMPACTED_MS)} if spec.compact else {}
    return lag | {
        CLEANUP_POLICY: policy,
        RETENTION_MS: str(_FOR_EVER if spec.retention_ms is None else spec.retention_ms),
        # Brokers may have a bound of their own, which would delete sooner.
        RETENTION_BYTES: str(_UNBOUNDED),
        TIMESTAMP_TYPE: _APPEND_TIME,
        MAX_MESSAGE_BYTES: str(spec.max_record_bytes + FRAMING_BYTES),
    }


def check_topic(spec: TopicSpec, state: TopicState) -> list[str]:
    """Why a topic cannot hold a table's log: sentences that name its value, the needed value and a remedy.

    The retention time is not checked here: no record is lost unnoticed because of it.

    Returns:
        An empty list if it can.
    """
    problems = []
    if state.partitions < spec.partitions:
        problems.append(
            f"It has {state.partitions} partitions and needs {spec.partitions}: add some "
            f"(kafka-topics.sh --bootstrap-server BROKER --alter --topic {state.name} --partitions {spec.partitions})."
        )
    policies = {policy.strip() for policy in state.settings.get(CLEANUP_POLICY, "delete").split(",")}
    if spec.compact and "compact" not in policies:
        problems.append(
            f"Its {CLEANUP_POLICY} is {_show(state, CLEANUP_POLICY)}; with the changelog mode 'upsert' it must contain "
            f"compact: {_how(state.name, CLEANUP_POLICY, 'compact')}."
        )
    if spec.compact and _number(state, MIN_COMPACTION_LAG_MS, 0) < UNCOMPACTED_MS:
        problems.append(
            f"Its {MIN_COMPACTION_LAG_MS} is {_show(state, MIN_COMPACTION_LAG_MS)} and must be {UNCOMPACTED_MS} at "
            "least, so that no reader of the table misses a change of a key that changes again: "
            f"{_how(state.name, MIN_COMPACTION_LAG_MS, str(UNCOMPACTED_MS))}."
        )
    if not spec.compact and "compact" in policies:
        problems.append(
            f"Its {CLEANUP_POLICY} is {_show(state, CLEANUP_POLICY)}, which would drop changes of keys that change "
            f"again; with the changelog mode 'all' it must be delete: {_how(state.name, CLEANUP_POLICY, 'delete')}."
        )
    if state.settings.get(TIMESTAMP_TYPE) != _APPEND_TIME:
        problems.append(
            f"Its {TIMESTAMP_TYPE} is {_show(state, TIMESTAMP_TYPE)} and must be {_APPEND_TIME}: "
            f"{_how(state.name, TIMESTAMP_TYPE, _APPEND_TIME)}."
        )
    needed = spec.max_record_bytes + FRAMING_BYTES
    if _number(state, MAX_MESSAGE_BYTES, 0) < needed:
        problems.append(
            f"Its {MAX_MESSAGE_BYTES} is {_show(state, MAX_MESSAGE_BYTES)}, and the largest record of the table needs "
            f"{needed}: {_how(state.name, MAX_MESSAGE_BYTES, str(needed))}, or give a 'log.max-record-size' that is "
            f"smaller by {FRAMING_BYTES} bytes at least."
        )
    if state.replication < spec.replication:
        problems.append(
            f"Each of its partitions is held by {state.replication} brokers, and 'log.system.replication' asks for "
            f"{spec.replication}: move its replicas (kafka-reassign-partitions.sh)."
        )
    least = _number(state, MIN_INSYNC, 1)
    if least > state.replication:
        problems.append(
            f"Its {MIN_INSYNC} is {least}, but only {state.replication} brokers hold each of its partitions, so that "
            f"nothing could ever be written: give 'log.system.replication' = '{least}' where the topic is made, or "
            f"{_how(state.name, MIN_INSYNC, str(state.replication))}."
        )
    return problems


def check_retention(spec: TopicSpec, state: TopicState) -> list[str]:
    """Why a topic does not retain records for as long as the user wants; sentences as in `check_topic`."""
    if spec.retention_ms is None or "delete" not in state.settings.get(CLEANUP_POLICY, "delete"):
        return []
    problems = []
    have = _number(state, RETENTION_MS, _FOR_EVER)
    if have != _FOR_EVER and have < spec.retention_ms:
        problems.append(
            f"Its {RETENTION_MS} is {have}, and 'log.retention' asks for {spec.retention_ms} ms: "
            f"{_how(state.name, RETENTION_MS, str(spec.retention_ms))}, or give a shorter 'log.retention'."
        )
    kept_bytes = _number(state, RETENTION_BYTES, _UNBOUNDED)
    if kept_bytes != _UNBOUNDED:
        problems.append(
            f"Its {RETENTION_BYTES} is {kept_bytes}, so that records may go before the {spec.retention_ms} ms that "
            f"'log.retention' asks for are over: {_how(state.name, RETENTION_BYTES, str(_UNBOUNDED))}, or leave "
            "'log.retention' out."
        )
    return problems


def _number(state: TopicState, key: str, default: int) -> int:
    text = state.settings.get(key, "")
    return int(text) if text.removeprefix("-").isdigit() else default


def _show(state: TopicState, key: str) -> str:
    return state.settings.get(key, "not known")


def _how(topic: str, key: str, value: str) -> str:
    command = "kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics"
    return f"{command} --entity-name {topic} --add-config {key}={value}"
