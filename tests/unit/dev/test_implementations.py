"""A class that inherits a protocol has a body of its own for each method: the protocol's would answer None."""

from __future__ import annotations

from typing import Protocol

import pytest

from lakelog.log.kafka.admin import KafkaTopicAdmin
from lakelog.log.kafka.log import KafkaLog
from lakelog.log.kafka.reader import KafkaReader
from lakelog.log.kafka.sending.producer import KafkaProducer
from lakelog.log.kafka.sending.uncommitted import KafkaUncommittedSender
from lakelog.log.memory.log import MemoryLog, MemoryTopicAdmin
from lakelog.log.memory.producing import MemoryProducer, MemoryUncommittedSender
from lakelog.log.memory.reader import MemoryReader
from metastore.memory.store import MemoryStore, MemoryTransaction
from metastore.postgres.store import PostgresStore, PostgresTransaction


def find_bodies_of_protocols(implementation: type) -> list[str]:
    owners = {name: owner for owner in reversed(implementation.__mro__) for name in vars(owner) if name[0] != "_"}
    return [name for name, owner in owners.items() if getattr(owner, "_is_protocol", False)]


@pytest.mark.parametrize(
    "implementation",
    [
        KafkaLog,
        KafkaProducer,
        KafkaReader,
        KafkaTopicAdmin,
        KafkaUncommittedSender,
        MemoryLog,
        MemoryProducer,
        MemoryReader,
        MemoryStore,
        MemoryTopicAdmin,
        MemoryTransaction,
        MemoryUncommittedSender,
        PostgresStore,
        PostgresTransaction,
    ],
)
def test_each_method_has_a_body(implementation: type) -> None:
    assert find_bodies_of_protocols(implementation) == []


def test_a_missing_one_is_noticed() -> None:
    class Door(Protocol):
        def open(self) -> bool: ...

        def close(self) -> bool: ...

    class Gate(Door):
        def open(self) -> bool:
            return True

    assert find_bodies_of_protocols(Gate) == ["close"]
