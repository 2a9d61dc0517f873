"""A store on Postgres whose commits pause between what they read and what they write, until a test lets them go on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

from metastore.postgres import PostgresStore
from metastore.postgres.store import PostgresTransaction
from metastore.store.records import GroupFacts, GroupKeys


class Paused(PostgresTransaction):
    """Waits between looking and writing, until it is told to go on."""

    looked: ClassVar[threading.Event]
    go_on: ClassVar[threading.Event]

    async def lock_group(self, keys: GroupKeys) -> GroupFacts:
        facts = await super().lock_group(keys)
        self.looked.set()
        while not self.go_on.is_set():
            await asyncio.sleep(0.005)
        return facts


def paused_store(transaction: type[PostgresTransaction] = Paused, **attributes: Any) -> type[PostgresStore]:
    events = {"looked": threading.Event(), "go_on": threading.Event()}
    return type(
        "PausedStore", (PostgresStore,), {"transaction_type": type("T", (transaction,), {**events, **attributes})}
    )
