"""Rows that Spark's tasks send to the log before the commit (`log.consistency` = `eventual`, semantics 4.2).

1. The driver program looks the log up and passes it to the tasks, which never call the metastore. Secrets that its
   options name are those of the executors.
2. A task can run twice, at once or one after the other, and bring its rows in another order then. So its records are
   numbered by its task attempt: the same attempt and index never name two rows. Records of a task attempt that did not
   count stay in the topic a second time; "at least once" allows this.
3. The commit says that all was sent only if each task with committed files knows this for its own rows, all tasks have
   sent to the same generation of the log, and records of one key cannot have arrived in another order than in the
   table. Else the publisher sends all of it.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock, SystemClock
from lakelog.errors import LakelogError
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.table import TableInfo
from lakelog.log.opening import LogOpener, open_table_log
from lakelog.log.settings import read_log_settings
from lakelog.spark.executor.written_files import WrittenFiles
from lakelog.writes.uncommitted_sending import (
    RowForm,
    SentUncommitted,
    UncommittedChannel,
    UncommittedPlace,
    UncommittedRows,
)

_TASK_BITS: Final = 20
_ROW_BITS: Final = 36
"""For 64 G rows a task, and a million tasks a write; together 17 digits, which every number parser accepts."""

_WAIT_S: Final = 5.0
"""How long to wait for acknowledgements of a task: its process may have to connect first, and tasks take seconds."""

_MAX_CHANNELS: Final = 8
"""Logs to which one process of an executor stays connected; each takes three threads and some megabytes."""


@dataclass(frozen=True)
class UncommittedTask:
    """What a task needs to send its rows. Picklable; holds no secret.

    Args:
        log: The log as it was when the write began.
        form: How rows become records.
    """

    log: LogInfo
    form: RowForm


def plan_uncommitted(metastore: Metastore, info: TableInfo) -> UncommittedTask | None:
    """How the tasks of a write that adds rows send them; None: they do not. Never fails; calls the metastore."""
    settings = read_log_settings(info.options, has_primary_key=bool(info.schema.primary_key))
    if settings is None or not settings.is_eventual:
        return None
    try:
        return UncommittedTask(metastore.get_log(info.table_uuid), RowForm.of(info, settings))
    except LakelogError:
        # If more than the log is wrong, the write reports it.
        return None


def begin_uncommitted(
    task: UncommittedTask | None, attempt_id: str, partition_id: int, task_attempt_id: int
) -> UncommittedRows | None:
    """Begins to send the rows of a task; None: they are not sent. Runs on executors."""
    if task is None:
        return None
    return _open_channels().begin(task, to_place(attempt_id, partition_id, task_attempt_id))


def to_place(attempt_id: str, partition_id: int, task_attempt_id: int) -> UncommittedPlace:
    """The place of a task's rows among those of its attempt. Pure."""
    # Never from 0 on: readers take such numbers for those of a writer that counts all rows of its attempt.
    return UncommittedPlace(attempt_id, (task_attempt_id % (1 << _TASK_BITS) + 1) << _ROW_BITS, partition_id)


def merge_sent(written: Sequence[WrittenFiles], *, has_key: bool) -> SentUncommitted | None:
    """States that all rows of a commit are in the log, in the table's order; None: that is not known. Pure.

    Args:
        written: What each task wrote.
        has_key: Whether later rows of a key replace earlier ones.
    """
    nonempty = [each for each in written if each.row_count]
    sent = [each.sent for each in nonempty if each.sent is not None]
    if not sent or len(sent) < len(nonempty) or len({each.generation for each in sent}) > 1:
        return None
    buckets = [bucket for each in nonempty for bucket in {(f.partition, f.bucket) for f in (*each.files, *each.inputs)}]
    if has_key and len(set(buckets)) < len(buckets):
        # Tasks send concurrently, and the commit has decided which of their rows come first.
        return None
    offsets: dict[int, int] = {}
    for each in sent:
        for partition, offset in each.offsets.items():
            offsets[partition] = max(offset, offsets.get(partition, 0))
    return SentUncommitted(sent[0].generation, offsets)


class TaskChannels:
    """The logs to which the tasks of one process send, reused from task to task. For many threads.

    Args:
        open_log: Opens a log.
        clock: For the time.
        wait_s: How long to wait for acknowledgements of all rows of a task.
    """

    def __init__(self, open_log: LogOpener, clock: Clock, wait_s: float = _WAIT_S) -> None:
        self._open_log = open_log
        self._clock = clock
        self._wait_s = wait_s
        self._channels: OrderedDict[tuple[object, ...], UncommittedChannel] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, task: UncommittedTask, place: UncommittedPlace) -> UncommittedRows | None:
        """Begins to send the rows of a task; None: brokers were unavailable a moment ago."""
        info = task.log
        # Another generation is another log: what was sent to the one before says nothing about it.
        key = (info.table_uuid, info.topic, info.generation, tuple(sorted(info.options.items())))
        with self._lock:
            channel = self._channels.pop(key, None)
            if channel is None:
                channel = UncommittedChannel(str(info.name), lambda: info, self._open_log, self._clock, self._wait_s)
            self._channels[key] = channel
            if len(self._channels) > _MAX_CHANNELS:
                # A task that still uses it cannot send any more, and reports that.
                self._channels.popitem(last=False)[1].close()
        return UncommittedRows(channel, task.form, place) if channel.is_open else None


@functools.cache
def _open_channels() -> TaskChannels:
    return TaskChannels(open_table_log, SystemClock())
