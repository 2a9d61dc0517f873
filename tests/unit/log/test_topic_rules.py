"""What a topic must be like to hold a table's log (R9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.log.records import TopicSpec, TopicState
from lakelog.log.topic_rules import check_retention, check_topic, make_topic_name, to_topic_settings

SPEC = TopicSpec("t", partitions=4, replication=2, retention_ms=1000)
UUID = "0123456789abcdef0123456789abcdef"


def make_state(spec: TopicSpec, **settings: str) -> TopicState:
    known = {**to_topic_settings(spec), "min.insync.replicas": "1"}
    known.update({key.replace("_", "."): value for key, value in settings.items()})
    return TopicState(spec.name, "id", spec.partitions, spec.replication, known)


@pytest.mark.parametrize("spec", [SPEC, replace(SPEC, compact=True), replace(SPEC, compact=True, retention_ms=None)])
def test_a_topic_that_was_made_for_the_table_fits(spec: TopicSpec) -> None:
    assert check_topic(spec, make_state(spec)) == []
    assert check_retention(spec, make_state(spec)) == []


def test_settings_of_a_new_topic() -> None:
    assert to_topic_settings(SPEC)["cleanup.policy"] == "delete"
    assert "min.compaction.lag.ms" not in to_topic_settings(SPEC)
    upsert = to_topic_settings(replace(SPEC, compact=True, retention_ms=None))
    assert (upsert["cleanup.policy"], upsert["retention.ms"]) == ("compact", "-1")
    assert to_topic_settings(replace(SPEC, compact=True))["cleanup.policy"] == "compact,delete"


@pytest.mark.parametrize(
    ("spec", "state", "parts"),
    [
        (
            SPEC,
            replace(make_state(SPEC), partitions=3),
            ["has 3 partitions and needs 4", "--bootstrap-server", "--partitions 4"],
        ),
        (SPEC, make_state(SPEC, cleanup_policy="compact"), ["cleanup.policy is compact", "must be delete"]),
        (SPEC, make_state(SPEC, cleanup_policy="compact,delete"), ["would drop changes"]),
        (
            replace(SPEC, compact=True),
            make_state(replace(SPEC, compact=True), cleanup_policy="delete"),
            ["cleanup.policy is delete", "must contain compact"],
        ),
        (
            replace(SPEC, compact=True),
            make_state(replace(SPEC, compact=True), min_compaction_lag_ms="0"),
            ["min.compaction.lag.ms is 0 and must be 3600000", "--add-config min.compaction.lag.ms=3600000"],
        ),
        (
            SPEC,
            make_state(SPEC, message_timestamp_type="CreateTime"),
            ["is CreateTime and must be LogAppendTime", "--add-config message.timestamp.type=LogAppendTime"],
        ),
        (SPEC, make_state(SPEC, max_message_bytes="1000"), ["max.message.bytes is 1000", "needs 1049088"]),
        (SPEC, replace(make_state(SPEC), replication=1), ["held by 1 brokers", "asks for 2"]),
        (SPEC, make_state(SPEC, min_insync_replicas="3"), ["min.insync.replicas is 3", "only 2 brokers"]),
    ],
)
def test_what_does_not_fit_is_named_with_a_remedy(spec: TopicSpec, state: TopicState, parts: list[str]) -> None:
    problems = check_topic(spec, state)
    assert len(problems) == 1
    for part in parts:
        assert part in problems[0]


def test_all_problems_are_reported() -> None:
    state = replace(make_state(SPEC, max_message_bytes="1000", cleanup_policy="compact"), partitions=1)
    assert len(check_topic(SPEC, state)) == 3


def test_a_shorter_retention_is_reported_to_the_caller() -> None:
    (problem,) = check_retention(SPEC, make_state(SPEC, retention_ms="999"))
    assert "retention.ms is 999, and 'log.retention' asks for 1000 ms" in problem
    assert check_retention(SPEC, make_state(SPEC, retention_ms="-1")) == []
    assert check_topic(SPEC, make_state(SPEC, retention_ms="999")) == []


def test_a_bound_of_bytes_keeps_no_records_for_a_time() -> None:
    bounded = make_state(SPEC, retention_bytes="1000")
    (problem,) = check_retention(SPEC, bounded)
    assert "retention.bytes is 1000, so that records may go before the 1000 ms" in problem
    assert "--add-config retention.bytes=-1" in problem
    assert len(check_retention(SPEC, make_state(SPEC, retention_ms="999", retention_bytes="0"))) == 2
    # What deletes nothing goes by no bound, and who asked for no time has none to be kept.
    compacted = replace(SPEC, compact=True)
    assert check_retention(compacted, make_state(compacted, cleanup_policy="compact", retention_bytes="1000")) == []
    assert check_retention(compacted, make_state(compacted, retention_bytes="1000")) != []
    assert check_retention(replace(SPEC, retention_ms=None), bounded) == check_topic(SPEC, bounded) == []
    assert to_topic_settings(SPEC)["retention.bytes"] == "-1"


def test_names_of_topics() -> None:
    assert make_topic_name("shop", "orders", UUID, 1) == f"shop_orders_{UUID}"
    assert make_topic_name("shop", "orders", UUID, 3) == f"shop_orders_{UUID}_3"
    longest = make_topic_name("d" * 128, "t" * 128, UUID, 12)
    assert len(longest) == 249
    assert longest.endswith(f"_{UUID}_12")


def test_all_that_does_not_fit_is_named_at_once() -> None:
    """A topic as Kafka's own tools make it needs two settings for upserts: one may not hide the other."""
    problems = check_topic(replace(SPEC, compact=True), make_state(SPEC, min_compaction_lag_ms="0"))
    assert ["cleanup.policy is delete" in problems[0], "min.compaction.lag.ms is 0" in problems[1]] == [True, True]
    assert all("kafka-configs.sh --bootstrap-server BROKER --alter" in problem for problem in problems)
