"""Calls to brokers about one topic. These functions block, and are safe to repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.errors import AlreadyExists, InvalidArgument, NotFound
from lakelog.log.protocol import TopicAdmin
from lakelog.log.records import TopicSpec, TopicState
from lakelog.log.topic_rules import (
    CLEANUP_POLICY,
    MAX_MESSAGE_BYTES,
    RETENTION_BYTES,
    RETENTION_MS,
    check_retention,
    check_topic,
    to_topic_settings,
)


def look_up_topic(admin: TopicAdmin, name: str) -> TopicState | None:
    """A topic; None: there is none. A failure means that no broker has done anything."""
    return admin.find_topic(name)


def make_topic(admin: TopicAdmin, spec: TopicSpec, *, may_exist: bool, wants_retention: bool) -> TopicState:
    """Makes a topic, or takes an existing one; a topic that was made and does not fit is deleted again.

    Args:
        admin: The admin client of its cluster.
        spec: The properties it needs.
        may_exist: The name is the user's, or one that the table has had: an existing topic is taken.
        wants_retention: The user has set how long records are retained.

    Raises:
        InvalidArgument: It does not fit the table; names what it has and what is needed.
        LakelogError: As in `TopicAdmin`.
    """
    state = admin.find_topic(spec.name) if may_exist else None
    made = False
    if state is None:
        try:
            state = admin.create_topic(spec)
            made = True
        except AlreadyExists:
            # With a generated name it is our own topic, whose answer was lost.
            state = admin.find_topic(spec.name)
            if state is None:
                raise
    problems = check_topic(spec, state) + (check_retention(spec, state) if wants_retention else [])
    if problems:
        if made:
            admin.delete_topic(spec.name)
        raise _mismatch(spec.name, problems)
    return state


def alter_topic(admin: TopicAdmin, before: TopicSpec, after: TopicSpec) -> TopicState:
    """Changes a topic to follow its table's options. Nothing is changed if it would not fit them afterwards.

    A smaller limit on records changes nothing: records on their way to the topic may be larger.

    Raises:
        NotFound: There is no such topic.
        InvalidArgument: It does not fit the table; names what it has and what is needed.
        LakelogError: As in `TopicAdmin`; a part may be done, and repeating does the rest.
    """
    state = admin.find_topic(after.name)
    if state is None:
        raise NotFound(
            f"There is no topic {after.name} at these brokers, so that the table's log could not go on there. Name the "
            "brokers that have it, or make it there first.",
            reason="TOPIC_NOT_FOUND",
            metadata={"topic": after.name},
        )
    wanted = to_topic_settings(after)
    settings = {}
    if before.retention_ms != after.retention_ms:
        settings.update({key: wanted[key] for key in (CLEANUP_POLICY, RETENTION_MS, RETENTION_BYTES)})
    have = state.settings.get(MAX_MESSAGE_BYTES, "0")
    if before.max_record_bytes < after.max_record_bytes and int(have) < int(wanted[MAX_MESSAGE_BYTES]):
        settings[MAX_MESSAGE_BYTES] = wanted[MAX_MESSAGE_BYTES]
    partitions = max(state.partitions, after.partitions) if before.partitions < after.partitions else state.partitions
    expected = replace(state, partitions=partitions, settings={**state.settings, **settings})
    problems = check_topic(after, expected)
    if problems:
        raise _mismatch(after.name, problems)
    if settings:
        admin.alter_topic(after.name, settings)
    if partitions > state.partitions:
        admin.add_partitions(after.name, partitions)
    return expected


def delete_topic(admin: TopicAdmin, name: str) -> None:
    """Deletes a topic that is no longer needed, and may be gone already."""
    admin.delete_topic(name)


def _mismatch(name: str, problems: Sequence[str]) -> InvalidArgument:
    return InvalidArgument(
        f"The topic {name} cannot hold the table's log. {' '.join(problems)}",
        reason="TOPIC_MISFIT",
        metadata={"topic": name, "problems": str(len(problems))},
    )
