"""Topics of Kafka as the source of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

from pyspark.sql import SparkSession

from lakelog.errors import LakelogError
from lakelog.serving.logging_setup import Logger

from ..pipeline.kafka_spec import KafkaSource
from ..progress import Progress
from ..source import ReadTasks
from .offset_log import BatchOffsets, OffsetLog
from .stream import SOURCE_NAME, KafkaStreamReader, register_source, source_options
from .tasks import KafkaReadTask, range_reader
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
        self._planner: KafkaStreamReader | None = None

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

    def plan_first(self) -> bool:
        # The same one at each call: it keeps its connections.
        planner = self._planner = self._planner or KafkaStreamReader(dict(self.spark_source(1)[1]))
        is_planned = False
        try:
            is_planned = planner.plan_next(0) > 0
        except LakelogError:
            self._planner = None
            planner.stop()
            raise
        if is_planned:
            planner.stop()
        return is_planned

    def reader(self, batch_id: int) -> ReadTasks:
        return range_reader(self._task(batch_id))

    def register(self, spark: SparkSession) -> None:
        register_source(spark)

    def spark_source(self, splits: int) -> tuple[str, Mapping[str, str]]:
        return SOURCE_NAME, source_options(self._source, self._log.folder, splits)

    def report_changes(self, progress: Progress) -> None:
        """Nothing: each batch reports what waits."""
