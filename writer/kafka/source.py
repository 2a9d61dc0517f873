"""Topics of Kafka as the source of a pipeline."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing

from lakelog.serving.logging_setup import Logger
from lakelog.spark.batch.given_rows import MAX_ROWS

from ..pipeline.kafka_spec import KafkaSource
from ..progress import Progress
from ..source import BatchTasks
from .discovery import range_discoverer
from .offset_log import BatchOffsets, OffsetLog
from .planner import TopicPlanner
from .ranges import split_ranges
from .tasks import KafkaReadTask, TakenRange, range_reader
from .topic import Topic, check_id


class TopicSource:
    """See `writer.source.Source`.

    Args:
        source: The topics.
        offset_log: Which offsets each batch takes.
        task: How records are read; its `batch_id` is each batch's own.
    """

    def __init__(self, source: KafkaSource, offset_log: OffsetLog, task: Callable[[int], KafkaReadTask]) -> None:
        self._source = source
        self._log = offset_log
        self._task = task
        self._planner = TopicPlanner(source, offset_log)

    def read_batch(self, batch_id: int) -> BatchOffsets | None:
        return self._log.read(batch_id)

    def refresh(self, batch_id: int, log: Logger) -> None:
        """Checks that the topics are still those with which the pipeline began; records never change.

        Raises:
            HistoryDiverged: One was deleted and made again.
            NotFound: One no longer exists.
            Unavailable: No broker answers.
        """
        for start in self._log.read_start() or ():
            with closing(Topic(self._source, start.topic)) as topic:
                check_id(start.topic, start.topic_id, topic.find_id())

    def freeze(self) -> None:
        self._planner.freeze()

    def plan(self, batch_id: int) -> bool:
        return self._planner.plan(batch_id)

    def split(self, batch_id: int, splits: int) -> BatchTasks:
        groups = self.group(batch_id, splits)
        may_be_few = sum(part.end - part.start for group in groups for part in group) <= MAX_ROWS
        task = self._task(batch_id)
        discover = None if self._source.avro is not None else range_discoverer(task, groups)
        return BatchTasks(len(groups), range_reader(task, groups), may_be_few, discover)

    def group(self, batch_id: int, splits: int) -> list[list[TakenRange]]:
        """The batch's ranges by task, neighbours together, in order."""
        batch = self._log.load(batch_id)
        ids = {topic.topic: topic.topic_id for topic in batch.topics}
        numbers = itertools.count()
        return [
            [
                TakenRange(batch_id, next(numbers), part.topic, ids[part.topic], part.partition, part.start, part.end)
                for part in group
            ]
            for group in split_ranges(batch.ranges, splits)
        ]

    def forget(self, before: int) -> None:
        self._log.prune(before)

    def close(self) -> None:
        self._planner.close()

    def report_changes(self, progress: Progress) -> None:
        """Nothing: each batch reports what waits."""
