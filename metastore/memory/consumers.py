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

    async def count_consumers(self, table_id: int, owner: str) -> int:
        return sum(table == table_id and each == owner for (table, _), each in self._state.consumer_owners.items())

    async def put_consumer(self, table_id: int, consumer: Consumer, owner: str | None) -> tuple[int, str]:
        now_ms = self._clock.now_ms()
        stored = replace(consumer, used_at_ms=now_ms, expires_at_ms=0)
        key, owners = (table_id, consumer.consumer_id), self._state.consumer_owners
        self._journal.put(self._state.consumers, key, stored)
        self._journal.put(owners, key, "" if owner is None else owners.get(key) or owner)
        return now_ms, owners[key]

    async def delete_consumer(self, table_id: int, consumer_id: str) -> str:
        key = (table_id, consumer_id)
        owner = self._state.consumer_owners.get(key, "")
        self._journal.pop(self._state.consumers, key)
        self._journal.pop(self._state.consumer_owners, key)
        return owner
