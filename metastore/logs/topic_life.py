"""How a log's topic follows its table: the records in the transactions that change the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lakelog.errors import AlreadyExists, CommitConflict, Unavailable
from lakelog.format.log.state import LogInfo, SnapshotOffsets
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.log.topic_rules import make_topic_name
from lakelog.options.declared.kafka import KAFKA_SERVERS
from lakelog.options.declared.log import KAFKA, LOG_SYSTEM
from lakelog.options.log_rules import is_of_log

from ..store.logs import LogStart, LogTopic, TopicLife
from ..store.transaction import Transaction

ABANDONED_MS: Final = 600_000
"""A topic is made within a minute, or the process that began it is dead."""

_NO_SNAPSHOT: Final = "0" * 32
"""The uuid of the state before a table's first snapshot, and of a snapshot that is no longer retained."""

TOPIC_IN_USE: Final = "TOPIC_IN_USE"
"""The reason of the error for a topic that is the log of another table."""

_ONE_TABLE: Final = "and a log holds the changes of one table"

_FIXED: Final = "A table's 'kafka.topic' cannot change."


async def finish_log(tx: Transaction, start: LogStart, table_id: int) -> None:
    """Begins a log in its topic, in the transaction that makes its table.

    Raises:
        Unavailable: It took so long that the topic was given up.
        AlreadyExists: Another table has its log in this topic.
    """
    topic = start.topic
    found = await tx.lock_log_topic(topic.table_uuid)
    if found is None or found.life is not TopicLife.CREATING:
        raise Unavailable(
            f"The topic {topic.topic} was given up, since the table was not made within "
            f"{ABANDONED_MS // 60_000} minutes. Try again.",
            reason="TOPIC_GIVEN_UP",
            metadata={"topic": topic.topic},
        )
    await begin_log(tx, start, table_id, is_new=True)


async def begin_log(tx: Transaction, start: LogStart, table_id: int, *, is_new: bool = False) -> None:
    """Begins a generation, in the transaction that gives it to its table.

    The offsets of the snapshot after which the generation begins say which records the topic already has. The publisher
    of the previous generation may still add records until its successor's first start, which reports them.

    Args:
        tx: The transaction.
        start: The generation that begins.
        table_id: The table's number.
        is_new: The table is only being made, so that it may still get another topic.

    Raises:
        AlreadyExists: Another table has its log in this topic.
    """
    topic = start.topic
    await check_unused(tx, topic, is_new=is_new)
    await tx.put_log_topic(topic)
    if any(start.offsets):
        await put_beginning(tx, topic, table_id, start.offsets)


async def put_beginning(tx: Transaction, topic: LogTopic, table_id: int, offsets: tuple[int, ...]) -> None:
    """Records where a generation begins in its topic, replacing the earlier estimate."""
    uuids = await tx.find_snapshot_uuids(table_id, [topic.starts_after])
    uuid = uuids.get(topic.starts_after, _NO_SNAPSHOT)
    await tx.put_log_offsets(table_id, topic.generation, SnapshotOffsets(topic.starts_after, uuid, offsets))


async def check_unused(tx: Transaction, topic: LogTopic, *, is_new: bool) -> None:
    """Check that no other table has its log in the topic, nor will before the transaction ends.

    Raises:
        AlreadyExists: Another table has; the error names it.
    """
    user = await tx.find_topic_user(topic.topic_id, topic.table_uuid)
    if user is None:
        return
    whose = f"of table {user}" if user.name else "of a table that is being made"
    if is_new:
        remedy = "Give another 'kafka.topic', or leave it out."
    elif user.name:
        remedy = f"{_FIXED} Drop {user}: the log can begin once that is gone."
    else:
        remedy = f"{_FIXED} The log can begin once that table is dropped."
    raise _in_use(f"The topic {topic.topic} is the log {whose} already, {_ONE_TABLE}. {remedy}", topic, user)


async def check_restorable(tx: Transaction, topic: LogTopic, table: TableName) -> None:
    """Check that the topic of a dropped table's log is free for it, as far as is known without brokers.

    What only the brokers know, such as that two of their names mean the same broker, is found when the topic is made.

    Raises:
        AlreadyExists: Another table has its log there by now; the error names it.
    """
    servers = set(KAFKA_SERVERS.read(topic.options))
    named = await tx.find_named_topics(topic.topic, topic.table_uuid)
    users = [name for other, name in named if servers & set(KAFKA_SERVERS.read(other.options))]
    # The id finds it even if its brokers have other names.
    by_id = await tx.find_topic_user(topic.topic_id, topic.table_uuid) if topic.topic_id else None
    user = users[0] if users else by_id
    if user is None or not user.name:
        return
    raise _in_use(
        f"Table {table} cannot be restored now: its log belongs in the topic {topic.topic}, which is the log of table "
        f"{user} by now, {_ONE_TABLE}. {_FIXED} Drop {user} first (lakelog table drop {user}); only one of the two can "
        "be there at a time.",
        topic,
        user,
    )


def _in_use(message: str, topic: LogTopic, user: TableName) -> AlreadyExists:
    metadata = {"topic": topic.topic, "table": str(user) if user.name else ""}
    return AlreadyExists(message, reason=TOPIC_IN_USE, metadata=metadata)


async def follow_log(tx: Transaction, topic: LogTopic) -> None:
    """Records which options a log's topic has followed, in the transaction that alters its table.

    Raises:
        CommitConflict: The log was restarted meanwhile.
    """
    found = await tx.lock_log_topic(topic.table_uuid)
    if found is None or found.generation != topic.generation:
        raise CommitConflict(
            f"The log in the topic {topic.topic} was restarted while its table was altered. Alter the table again.",
            reason="LOG_RESTARTED",
            metadata={"topic": topic.topic, "retry": "same"},
        )
    await tx.put_log_topic(replace(found, options=topic.options, problem=topic.problem))


async def leave_log(tx: Transaction, table_uuid: str) -> None:
    """Gives up a dropped table's topic, in the transaction that drops it; it is deleted later, if the name is ours."""
    topic = await tx.lock_log_topic(table_uuid)
    if topic is not None and topic.life in (TopicLife.LIVE, TopicLife.WANTED):
        life = TopicLife.GONE if topic.is_named else TopicLife.DROPPING
        await tx.put_log_topic(replace(topic, life=life, problem=""))


async def rejoin_log(tx: Transaction, table: TableInfo) -> None:
    """Gives a restored table a new log, after its newest snapshot; consumers' offsets end with the drop.

    A table can be restored while brokers are away: the topic is made once they answer.

    Raises:
        AlreadyExists: Another table has its log in this one's named topic by now.
    """
    topic = await tx.lock_log_topic(table.table_uuid)
    if topic is None:
        return
    if topic.is_named:
        await check_restorable(tx, topic, table.name)
    generation = topic.generation + 1
    name = table.name
    begun = replace(
        topic,
        generation=generation,
        topic=topic.topic
        if topic.is_named
        else make_topic_name(name.database, name.name, table.table_uuid, generation),
        topic_id="",
        starts_after=table.latest_snapshot_id,
        life=TopicLife.WANTED,
        problem="",
    )
    await tx.put_log_topic(begun)
    if topic.life is TopicLife.GONE:
        await tx.delete_log_topic(topic.table_uuid, topic.generation)


def has_log(options: Mapping[str, str]) -> bool:
    """Whether tables with these options have a log. Pure."""
    return LOG_SYSTEM.read(options) == KAFKA


def of_log(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a table that concern its log. Pure."""
    return {key: value for key, value in sorted(options.items()) if is_of_log(key)}


def to_info(topic: LogTopic, name: TableName) -> LogInfo:
    """What callers see of a log. Pure."""
    problem = topic.problem
    if topic.life is TopicLife.WANTED:
        problem = f"The topic {topic.topic} is not made yet. {problem}".rstrip()
    return LogInfo(
        table_uuid=topic.table_uuid,
        name=name,
        topic=topic.topic,
        topic_id=topic.topic_id,
        generation=topic.generation,
        starts_after=topic.starts_after,
        is_named=topic.is_named,
        options=dict(topic.options),
        problem=problem,
    )


def describe_other(topic: LogTopic) -> str:
    """The problem of a log whose brokers have another topic of its name. Pure."""
    return (
        f"The topic {topic.topic} at the brokers that the table names now is not the one that its log began in. "
        "Restart the log there: lakelog log restart."
    )


async def leave_unfinished(tx: Transaction, topic: LogTopic) -> bool:
    """Marks a topic in the making for dropping; returns whether it is to be deleted."""
    found = await tx.lock_log_topic(topic.table_uuid)
    if found is None or found.generation != topic.generation:
        # A topic of an older generation belongs to no table.
        return topic.life is TopicLife.DROPPING
    if found.life is TopicLife.CREATING:
        if found.is_named:
            await tx.delete_log_topic(found.table_uuid, found.generation)
            return False
        await tx.put_log_topic(replace(found, life=TopicLife.DROPPING))
        return True
    return found.life is TopicLife.DROPPING


async def forget_topic(tx: Transaction, topic: LogTopic) -> None:
    """Records that a topic is gone; deletes the record where its number can never be needed again."""
    dropped = await tx.find_dropped(topic.table_uuid)
    newest = await tx.lock_log_topic(topic.table_uuid)
    if newest is None:
        return
    if newest.generation == topic.generation and dropped is not None:
        if newest.life in (TopicLife.DROPPING, TopicLife.GONE):
            await tx.put_log_topic(replace(newest, life=TopicLife.GONE, problem=""))
    elif newest.generation != topic.generation or newest.life is not TopicLife.LIVE:
        await tx.delete_log_topic(topic.table_uuid, topic.generation)
