"""Consumers in memory."""

from __future__ import annotations

from dataclasses import replace

from lakelog.format.retention.consumer import Consumer

from ..store.transaction import ConsumerTransaction
from .catalog import MemoryCatalog


class MemoryConsumers(MemoryCatalog, ConsumerTransaction):
    """See `metastore.store.transaction.ConsumerTransaction`."""

    async def now_ms(self) -> int:
        return self._clock.now_ms()

    async def make_epoch(self, last: int) -> int:
        return self._make_epoch(last)

    async def find_consumer(self, table_id: int, table_uuid: str, consumer_id: str) -> Consumer | None:
        return self._state.consumers.get((table_id, consumer_id))

    async def list_consumers(self, table_id: int, table_uuid: str) -> list[Consumer]:
        found = sorted(self._state.consumers.items())
        return [consumer for (owner, _), consumer in found if owner == table_id]

    async def put_consumer(self, table_id: int, consumer: Consumer) -> int:
        """Makes or changes a consumer and returns the time. The table's head is locked."""
        now_ms = self._clock.now_ms()
        stored = replace(consumer, used_at_ms=now_ms, expires_at_ms=0)
        self._journal.put(self._state.consumers, (table_id, consumer.consumer_id), stored)
        return now_ms

    async def delete_consumer(self, table_id: int, consumer_id: str) -> None:
        self._journal.pop(self._state.consumers, (table_id, consumer_id))
