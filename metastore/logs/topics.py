"""The life of tables' topics: made before their tables, dropped after them, and never left over by a crash.

    create:   creating --> (the topic is made) --> live, in the transaction that makes the table
                  |
                  +-- refused, failed, or left for ten minutes --> dropping
    drop:     live --> dropping, or gone where the name is the user's --> (the topic is deleted) --> gone
    restore:  gone --> wanted, a generation of its own after the newest snapshot --> (the topic is made) --> live
    restart:  live --> live, another generation after the newest snapshot, in the topic as it is or made again

1. Each call to brokers is recorded before it is made, so that another process can finish it.
2. No lock is held, and the event loop is not blocked, while brokers are waited for.
3. A topic whose name the user gave is never deleted, even if the metastore made it.
4. A generation's number is used once, so that no position of an older one is ever taken for its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from lakelog.client.connection.retry import BROKERS_UNAVAILABLE
from lakelog.errors import CommitConflict, LakelogError, NotFound, OutcomeUnknown, Unavailable
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.table import TableInfo
from lakelog.log.protocol import TopicAdmin
from lakelog.log.records import TopicState
from lakelog.log.settings import LogSettings, read_log_settings
from lakelog.log.topic_rules import make_topic_name
from lakelog.options.declared.log import LOG_RETENTION

from ..store.logs import LogStart, LogTopic, TopicLife
from ..store.records import NewTable
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_uuid
from ..tables.lookup import find_table, lock_head
from .brokers import Brokers, BrokersTooSlow
from .topic_life import ABANDONED_MS, begin_log, describe_other, forget_topic, leave_unfinished, of_log, to_info
from .topic_work import alter_topic, delete_topic, look_up_topic, make_topic

log = logging.getLogger(__name__)

_TOPICS_A_STEP: Final = 100
_PAUSE_S: Final = 5.0
"""Between two searches for unfinished work, while there is some."""

_IDLE_PAUSE_S: Final = 30.0
"""Between two searches that find none: how late the work of a metastore that has died is finished."""


class LogTopics:
    """The use cases of tables' topics.

    Args:
        store: Where everything is stored.
        brokers: The brokers that tables may name.
    """

    def __init__(self, store: Store, brokers: Brokers) -> None:
        self._store = store
        self._brokers = brokers
        self._due = asyncio.Event()
        self._working: dict[str, asyncio.Task[int]] = {}
        self._passed_over = False
        self._pause_s = _PAUSE_S

    def resolve(self, options: Mapping[str, str]) -> dict[str, str]:
        """A new table's options with its brokers in them; see `Brokers.resolve`."""
        return self._brokers.resolve(options)

    async def begin(self, new: NewTable) -> LogStart | None:
        """Makes the topic of a table that is to be made; None: it has no log.

        The caller then passes the result to `topic_life.finish_log`, or its topic to `give_up`.

        Raises:
            InvalidArgument: A topic of the name that the user gave does not fit.
            LakelogError: An error of the brokers; nothing is left over.
        """
        settings = read_log_settings(new.options, has_primary_key=bool(new.schema.primary_key))
        if settings is None:
            return None
        name = settings.topic or make_topic_name(new.name.database, new.name.name, new.table_uuid, 1)
        # Nothing that must be undone is requested from brokers that are away or refuse access.
        await self._brokers.request(new.options, lambda admin: look_up_topic(admin, name))
        topic = LogTopic(new.table_uuid, 1, name, "", 0, bool(settings.topic), TopicLife.CREATING, of_log(new.options))
        await run_transaction(self._store, lambda tx: tx.put_log_topic(topic))
        try:
            state, ends = await self._make(topic, settings, may_exist=topic.is_named)
        except BrokersTooSlow:
            # They may still make it: a later step checks once that is certainly over.
            raise
        except Unavailable:
            await self.give_up(topic)
            raise
        except LakelogError:
            # They have refused it: nothing can be left over.
            await self._forget(topic)
            raise
        return LogStart(replace(topic, topic_id=state.topic_id, life=TopicLife.LIVE), ends)

    async def give_up(self, topic: LogTopic) -> None:
        """Gives up the topic of a table that was not made after all."""
        # If this fails, a later step does it.
        with suppress(Unavailable, OutcomeUnknown):
            await run_transaction(self._store, lambda tx: leave_unfinished(tx, topic))
        self.wake()

    async def _forget(self, topic: LogTopic) -> None:
        with suppress(Unavailable, OutcomeUnknown):
            await run_transaction(self._store, lambda tx: tx.delete_log_topic(topic.table_uuid, topic.generation))

    async def alter(self, table: TableInfo, options: Mapping[str, str]) -> LogTopic | None:
        """Changes a table's topic to follow the options that the table is about to have.

        Returns:
            The record to be written with them; None: no option of its log changes.

        Raises:
            NotFound: The brokers that the options name do not have the topic.
            InvalidArgument: The topic would not fit.
            LakelogError: An error of the brokers; a part may be done, and repeating does the rest.
        """
        if of_log(options) == of_log(table.options):
            return None
        has_key = bool(table.schema.primary_key)
        before = read_log_settings(table.options, has_primary_key=has_key)
        after = read_log_settings(options, has_primary_key=has_key)
        topic = await run_transaction(self._store, lambda tx: tx.find_log_topic(table.table_uuid))
        if before is None or after is None or topic is None:
            return None
        specs = before.to_topic_spec(topic.topic), after.to_topic_spec(topic.topic)
        changed = replace(topic, options=of_log(options), problem="")
        if topic.life is not TopicLife.LIVE:
            self._brokers.check(options)
            return changed
        state = await self._brokers.request(options, lambda admin: alter_topic(admin, *specs))
        if state.topic_id != topic.topic_id:
            return replace(changed, problem=describe_other(topic))
        return changed

    async def restart_log(self, table_uuid: str) -> LogInfo:
        table, topic = await self._find(table_uuid)
        settings = read_log_settings(table.options, has_primary_key=bool(table.schema.primary_key))
        assert settings is not None, "a table that has a topic has a log"
        state, ends = await self._make(topic, settings, may_exist=True)

        async def begin(tx: Transaction) -> LogTopic:
            head = await lock_head(tx, table_uuid)
            found = await tx.lock_log_topic(table_uuid)
            if found is None or found.generation != topic.generation:
                raise CommitConflict(
                    f"The log of {table.name} was restarted by another meanwhile. Look at it (lakelog log status) "
                    "before you restart it again.",
                    reason="LOG_RESTARTED",
                    metadata={"table": str(table.name), "retry": "never"},
                )
            await tx.delete_log_topic(table_uuid, found.generation)
            begun = replace(
                found,
                generation=found.generation + 1,
                topic_id=state.topic_id,
                starts_after=head.latest_snapshot_id,
                life=TopicLife.LIVE,
                problem="",
            )
            await begin_log(tx, LogStart(begun, ends), head.table_id)
            return begun

        return to_info(await run_transaction(self._store, begin), table.name)

    async def list_logs(self) -> list[LogInfo]:
        found = await run_transaction(self._store, lambda tx: tx.list_log_topics())
        return [to_info(topic, name) for topic, name in found]

    async def get_log(self, table_uuid: str) -> LogInfo:
        check_uuid("table_uuid", table_uuid)
        table, topic = await self._find(table_uuid)
        return to_info(topic, table.name)

    def wake(self) -> None:
        """Has due work done at once."""
        self._due.set()

    async def step(self) -> None:
        """Waits until something may be due, and starts it; brokers that are away delay no others.

        Raises:
            Unavailable, OutcomeUnknown: The store is lost; a later step finds what is due.
        """
        # SUBTLE: not wait_for, which in Python 3.11 loses a cancellation that comes with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s):
                await self._due.wait()
        self._due.clear()
        try:
            await self._begin_due()
        except BaseException:
            self._pause_s = _PAUSE_S
            raise

    async def work_off(self) -> int:
        """Does all that is due and possible; returns how many topics need no further work."""
        return sum(await asyncio.gather(*await self._begin_due()))

    async def close(self) -> None:
        """Stops calling brokers; idempotent."""
        self._brokers.close()
        working = list(self._working.values())
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)

    async def _begin_due(self) -> list[asyncio.Task[int]]:
        due = await run_transaction(self._store, lambda tx: tx.list_unsettled_topics(ABANDONED_MS, _TOPICS_A_STEP))
        self._pause_s = _PAUSE_S if due else _IDLE_PAUSE_S
        by_brokers: dict[str, list[LogTopic]] = {}
        for topic in due:
            by_brokers.setdefault(str(sorted(topic.options.items())), []).append(topic)
        begun = []
        for brokers, topics in by_brokers.items():
            if brokers in self._working:
                self._passed_over = True
                continue
            task = asyncio.create_task(self._work_off_all(topics))
            self._working[brokers] = task
            task.add_done_callback(partial(self._ended, brokers))
            begun.append(task)
        return begun

    def _ended(self, brokers: str, task: asyncio.Task[int]) -> None:
        del self._working[brokers]
        if not task.cancelled() and (defect := task.exception()) is not None:
            log.error("work on topics failed", exc_info=defect)
        if self._passed_over:
            self._passed_over = False
            self.wake()

    async def _work_off_all(self, topics: Sequence[LogTopic]) -> int:
        """Does what is due at the same brokers; what is not possible now waits for a later step."""
        done = 0
        away: LakelogError | None = None
        for topic in topics:
            try:
                if away is not None and topic.life is not TopicLife.GONE:
                    await self._try_to_note(topic, away)
                else:
                    await self._work_off(topic)
                    done += 1
            except LakelogError as error:
                if error.reason == BROKERS_UNAVAILABLE:
                    away = error
                await self._try_to_note(topic, error)
        return done

    async def _work_off(self, topic: LogTopic) -> None:
        if topic.life is TopicLife.WANTED:
            await self._make_wanted(topic)
            return
        if not topic.is_named and topic.life is not TopicLife.GONE:
            await self._delete(topic)
        await run_transaction(self._store, lambda tx: forget_topic(tx, topic))

    async def _delete(self, topic: LogTopic) -> None:
        def work(admin: TopicAdmin) -> None:
            delete_topic(admin, topic.topic)

        # Before it is deleted, so that the process that began it can no longer finish it.
        if not await run_transaction(self._store, lambda tx: leave_unfinished(tx, topic)):
            return
        await self._brokers.request(topic.options, work)
        log.info("topic %s is deleted, its table is gone", topic.topic)

    async def _make_wanted(self, topic: LogTopic) -> None:
        record = await run_transaction(self._store, lambda tx: tx.find_table_by_uuid(topic.table_uuid))
        if record is None:
            return
        table = record.info
        settings = read_log_settings(table.options, has_primary_key=bool(table.schema.primary_key))
        assert settings is not None, "a table that has a topic has a log"
        state, ends = await self._make(topic, settings, may_exist=True)

        async def end(tx: Transaction) -> None:
            found = await tx.lock_log_topic(topic.table_uuid)
            # It may have been dropped meanwhile: then the drop deletes what was made.
            if found is not None and (found.generation, found.life) == (topic.generation, TopicLife.WANTED):
                live = replace(found, topic_id=state.topic_id, life=TopicLife.LIVE, problem="")
                await begin_log(tx, LogStart(live, ends), record.table_id)

        await run_transaction(self._store, end)

    async def _make(
        self, topic: LogTopic, settings: LogSettings, *, may_exist: bool
    ) -> tuple[TopicState, tuple[int, ...]]:
        """The topic in its wanted state, and where its partitions end."""
        spec = settings.to_topic_spec(topic.topic)
        wants_retention = LOG_RETENTION.key in topic.options

        def work(admin: TopicAdmin) -> tuple[TopicState, tuple[int, ...]]:
            state = make_topic(admin, spec, may_exist=may_exist, wants_retention=wants_retention)
            return state, admin.find_ends(spec.name) if may_exist else ()

        return await self._brokers.request(topic.options, work)

    async def _try_to_note(self, topic: LogTopic, error: LakelogError) -> None:
        try:
            await self._note(topic, error)
        except (Unavailable, OutcomeUnknown) as lost:
            log.warning("topic %s waits for the database: %s", topic.topic, lost)

    async def _note(self, topic: LogTopic, error: LakelogError) -> None:
        if topic.problem != error.message:
            log.warning("topic %s is %s and cannot be for now: %s", topic.topic, topic.life.value, error.message)

        async def note(tx: Transaction) -> None:
            found = await tx.lock_log_topic(topic.table_uuid)
            # A topic of an older generation can only be deleted.
            if found is not None and found.generation > topic.generation:
                found = topic
            # Recorded each time: the topic that was tried last waits longest for its next turn.
            if found is not None and (found.generation, found.life) == (topic.generation, topic.life):
                await tx.put_log_topic(replace(found, problem=error.message))

        await run_transaction(self._store, note)

    async def _find(self, table_uuid: str) -> tuple[TableInfo, LogTopic]:
        async def find(tx: Transaction) -> tuple[TableInfo, LogTopic]:
            table = await find_table(tx, table_uuid)
            topic = await tx.find_log_topic(table_uuid)
            if topic is None:
                raise NotFound(
                    f"Table {table.info.name} has no log: its 'log.system' is 'none'.",
                    reason="LOG_NOT_FOUND",
                    metadata={"table": str(table.info.name), "table_uuid": table_uuid},
                )
            return table.info, topic

        check_uuid("table_uuid", table_uuid)
        return await run_transaction(self._store, find)
