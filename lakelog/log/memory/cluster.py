"""The brokers of a log in memory: topics, transactional ids with their epochs, and committed positions.

Deterministic: things happen only by calls, in one order. Threads may share it all the same. It models what the
reliability rules R1 to R10 protect against:

- A transactional id has an epoch that only fencing raises; all its transactions have the same one. So a late end of a
  transaction ends any transaction that is open under that id and epoch by then (R2).
- A position is committed with its transaction, and may be forgotten (R3).
- A topic may be cut, compacted, or deleted and made again (R10).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.clock import Clock, SystemClock
from lakelog.errors import AlreadyExists, Fenced, InvalidArgument, NotFound, Unavailable
from lakelog.log.memory.faults import Fault, FaultScript, Step
from lakelog.log.memory.partition import MemoryPartition, MemoryTransaction, TransactionState
from lakelog.log.records import FetchedRecords, TopicSpec, TopicState


@dataclass
class MemoryTopic:
    """A topic."""

    topic_id: str
    spec: TopicSpec
    settings: dict[str, str]
    partitions: list[MemoryPartition]


@dataclass
class _Identity:
    """The state of a transactional id."""

    epoch: int = 0
    transaction: MemoryTransaction | None = None


@dataclass(frozen=True)
class EndRequest:
    """The end of a transaction on its way to the brokers, which knows only the transaction's id and epoch."""

    transactional_id: str
    epoch: int
    commits: bool


@dataclass
class MemoryCluster:
    """The brokers of one cluster.

    Args:
        clock: Gives records their time.
        brokers: Their number; no topic has more replicas.
    """

    clock: Clock = field(default_factory=SystemClock)
    brokers: int = 1
    changed: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))
    faults: FaultScript = field(default_factory=FaultScript)
    _topics: dict[str, MemoryTopic] = field(default_factory=dict)
    _identities: dict[str, _Identity] = field(default_factory=dict)
    _positions: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    _under_way: list[EndRequest] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # Commands of tests.

    def script(self, step: Step, fault: Fault) -> None:
        """Makes one request of this kind fail so: the next that has no fault yet."""
        self.faults.add(step, fault)

    def deliver_late(self) -> int:
        """Delivers all ends of transactions that are still under way; returns how many took effect."""
        heard = 0
        with self.changed:
            requests, self._under_way = self._under_way, []
            for request in requests:
                try:
                    self.end_transaction(request)
                    heard += 1
                except Fenced:
                    continue
        return heard

    def forget_positions(self, group: str) -> None:
        """Forgets a group's committed positions, as brokers do some days after the group was last used."""
        with self.changed:
            self._positions = {key: value for key, value in self._positions.items() if key[0] != group}

    def cut(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Deletes the records of partitions before an offset."""
        with self.changed:
            partitions = self.get_topic(topic).partitions
            for partition, offset in offsets.items():
                partitions[partition].cut(offset)

    def compact(self, topic: str) -> None:
        """Retains only the last record of each key."""
        with self.changed:
            for partition in self.get_topic(topic).partitions:
                partition.compact()

    def expire_transactions(self) -> None:
        """Aborts all open transactions, as brokers do after their timeout, and fences their producers."""
        with self.changed:
            for identity in self._identities.values():
                if identity.transaction is not None:
                    self._end(identity, TransactionState.ABORTED)
                    identity.epoch += 1

    # Topics.

    def create_topic(self, spec: TopicSpec, settings: Mapping[str, str]) -> MemoryTopic:
        """Makes a topic."""
        with self.changed:
            if spec.name in self._topics:
                raise AlreadyExists(f"There is a topic {spec.name} already.", metadata={"topic": spec.name})
            if spec.replication > self.brokers:
                raise Unavailable(
                    f"The topic {spec.name} could not be made: {self.brokers} brokers cannot hold"
                    f" {spec.replication} replicas.",
                    reason="TOO_FEW_BROKERS",
                )
            partitions = [MemoryPartition(number) for number in range(spec.partitions)]
            topic = MemoryTopic(f"topic-{next(self._numbers)}", spec, dict(settings), partitions)
            self._topics[spec.name] = topic
            return topic

    def find_topic(self, name: str) -> MemoryTopic | None:
        """A topic."""
        return self._topics.get(name)

    def get_topic(self, name: str) -> MemoryTopic:
        """A topic that has to be there."""
        topic = self._topics.get(name)
        if topic is None:
            raise NotFound(f"There is no topic {name}.", reason="TOPIC_NOT_FOUND", metadata={"topic": name})
        return topic

    def delete_topic(self, name: str) -> bool:
        """Removes a topic, its records and all positions in it."""
        with self.changed:
            self._positions = {key: value for key, value in self._positions.items() if key[1] != name}
            return self._topics.pop(name, None) is not None

    def add_partitions(self, name: str, partitions: int) -> None:
        """Raises a topic's partitions to this number."""
        with self.changed:
            has = self.get_topic(name).partitions
            if partitions < len(has):
                raise InvalidArgument(
                    f"Partitions could not be added to the topic {name}: it has {len(has)}, and partitions can only be"
                    f" added. Asked for: {partitions} in all.",
                    metadata={"topic": name, "partitions": str(partitions), "has": str(len(has))},
                )
            has.extend(MemoryPartition(number) for number in range(len(has), partitions))

    # Producers.

    def fence(self, transactional_id: str) -> int:
        """Fences the producer that has this id, aborts its open transaction, and returns the new epoch."""
        with self.changed:
            identity = self._identities.setdefault(transactional_id, _Identity())
            self._end(identity, TransactionState.ABORTED)
            identity.epoch += 1
            return identity.epoch

    def append(self, topic: str, partition: int, records: FetchedRecords, writer: tuple[str, int] | None) -> int:
        """Appends records to the transaction that is open under an id and epoch; begins one if there is none."""
        with self.changed:
            partitions = self.get_topic(topic).partitions
            if not 0 <= partition < len(partitions):
                raise NotFound(f"The topic {topic} has no partition {partition}.", metadata={"topic": topic})
            transaction = None if writer is None else self._get_open(*writer)
            end = partitions[partition].append(records, transaction)
            self.changed.notify_all()
            return end

    def add_position(self, writer: tuple[str, int], key: tuple[str, str], offset: int, metadata: str) -> None:
        """Adds a position to the open transaction."""
        with self.changed:
            self._get_open(*writer).positions[key] = (offset, metadata)

    def _get_open(self, transactional_id: str, epoch: int) -> MemoryTransaction:
        identity = self._check_epoch(transactional_id, epoch)
        if identity.transaction is None:
            identity.transaction = MemoryTransaction()
        return identity.transaction

    def _check_epoch(self, transactional_id: str, epoch: int) -> _Identity:
        identity = self._identities[transactional_id]
        if epoch < identity.epoch:
            raise Fenced(
                f"A newer producer has the transactional id {transactional_id}. Start afresh and read the position"
                f" again; this says nothing about what was committed."
            )
        return identity

    def end_transaction(self, request: EndRequest) -> None:
        """Ends the transaction that is open under an id and epoch; does nothing if there is none."""
        with self.changed:
            identity = self._check_epoch(request.transactional_id, request.epoch)
            self._end(identity, TransactionState.COMMITTED if request.commits else TransactionState.ABORTED)

    def send_late(self, request: EndRequest) -> None:
        """Keeps a request under way until `deliver_late`."""
        self._under_way.append(request)

    def _end(self, identity: _Identity, state: TransactionState) -> None:
        transaction, identity.transaction = identity.transaction, None
        if transaction is None:
            return
        transaction.end(state)
        if state is TransactionState.COMMITTED:
            self._positions |= transaction.positions
        self.changed.notify_all()

    def find_position(self, group: str, topic: str) -> tuple[int, str]:
        """The committed offset and its metadata; a negative offset: there is none."""
        return self._positions.get((group, topic), (-1, ""))


def to_state(topic: MemoryTopic) -> TopicState:
    """The state of a topic."""
    spec = topic.spec
    return TopicState(spec.name, topic.topic_id, len(topic.partitions), spec.replication, dict(topic.settings))
