"""Plans the batches of topics: each takes the next records of every partition, and stays as it was planned."""

from __future__ import annotations

from lakelog.errors import LakelogError

from ..pipeline.kafka_spec import KafkaSource
from .offset_log import BatchOffsets, OffsetLog, TopicRanges
from .ranges import OffsetRange, plan_ranges
from .topic import Topic, TopicOffsets, check_id, find_starts


class TopicPlanner:
    """Plans batches, one after the other. Its connections stay open between them.

    Args:
        source: The topics.
        log: Which offsets each batch takes.
    """

    def __init__(self, source: KafkaSource, log: OffsetLog) -> None:
        self._log = log
        self._source = source
        self._topics = [Topic(self._source, name) for name in self._source.topics]
        self._frozen: list[TopicOffsets] | None = None

    def freeze(self) -> None:
        """Limits what is planned from now on to the records that exist now; blocks until the brokers answer."""
        self._frozen = self._read_offsets()

    def plan(self, batch_id: int) -> bool:
        """Plans a batch, if there are records that no batch took; returns whether it is planned. Blocks on the brokers.

        Raises:
            DataCorrupted: The log of the batch before is missing or malformed.
            HistoryDiverged: A topic is not the one that was read so far.
            SnapshotExpired: A topic has lost records that no batch took.
            Unavailable: No broker answers.
        """
        try:
            return self._plan(batch_id)
        except LakelogError:
            # Whatever was wrong, the next try begins with new connections and with the credentials of that moment.
            self.close()
            raise

    def close(self) -> None:
        """Ends all connections; the next plan makes new ones."""
        for topic in self._topics:
            topic.close()

    def _plan(self, batch_id: int) -> bool:
        # Planned before a crash: it must stay as it is, in case any process saw its log.
        if self._log.read(batch_id) is not None:
            return True
        known = self._frozen or self._read_offsets()
        pairs = list(zip(self._topics, known, strict=True))
        begun = self._log.read_start() or self._log.write_start(
            [topic.find_start(topic_offsets) for topic, topic_offsets in pairs]
        )
        # By name: topics may change their order in the pipeline's file.
        ids = {each.topic: each.topic_id for each in begun}
        read_to, taken = {each.topic: each.offsets for each in begun}, 0
        if batch_id > 0:
            last = self._log.load(batch_id - 1)
            read_to, taken = {each.topic: each.ends for each in last.topics}, last.taken_before + last.size
        waiting: list[OffsetRange] = []
        for topic, topic_offsets in pairs:
            check_id(topic.name, ids[topic.name], topic_offsets.topic_id)
            starts = find_starts(topic.name, read_to[topic.name], topic_offsets)
            waiting += [
                OffsetRange(topic.name, partition, start, end)
                for partition, (start, end) in enumerate(zip(starts, topic_offsets.ends, strict=True))
            ]
        if not any(part.size for part in waiting):
            return False
        ranges = plan_ranges(waiting, self._source.max_records_per_batch)
        topics = tuple(
            TopicRanges(
                topic.name,
                topic_offsets.topic_id,
                tuple(p for p in ranges if p.topic == topic.name),
                topic_offsets.ends,
            )
            for topic, topic_offsets in pairs
        )
        self._log.plan(BatchOffsets(batch_id, topics, taken))
        return True

    def _read_offsets(self) -> list[TopicOffsets]:
        return [topic.read_offsets() for topic in self._topics]
