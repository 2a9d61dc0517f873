"""Tables with logs, and what is due at their topics, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.format.tables.table import TableInfo, TableName
from metastore.store.logs import LogTopic
from metastore.store.transaction import Transaction, run_transaction
from metastore.testing import InProcessMetastore
from tests.support.log.log_brokers import LOG
from tests.support.metastore.making import SCHEMA

NAME = TableName("shop", "orders")
NAMED = {"kafka.topic": "changes"}


def make(
    metastore: Metastore, options: Mapping[str, str] | None = None, *, name: TableName = NAME, keyed: bool = True
) -> TableInfo:
    key = ["id"] if keyed else []
    return metastore.create_table(name, SCHEMA, primary_key=key, options={**LOG, **(options or {})})[0]


def work_off(metastore: InProcessMetastore) -> int:
    return metastore.run(metastore.use_cases.log_topics.work_off())


def list_unsettled(metastore: InProcessMetastore) -> list[LogTopic]:
    async def find(tx: Transaction) -> list[LogTopic]:
        return await tx.list_unsettled_topics(0, 100)

    return metastore.run(run_transaction(metastore.store, find))


def put(metastore: InProcessMetastore, topic: LogTopic) -> None:
    async def write(tx: Transaction) -> None:
        await tx.put_log_topic(topic)

    metastore.run(run_transaction(metastore.store, write))


def check_nothing_is_left(metastore: InProcessMetastore, name: TableName = NAME) -> None:
    work_off(metastore)
    assert list_unsettled(metastore) == []
    assert metastore.list_logs() == []
    with pytest.raises(NotFound):
        metastore.get_table(name)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
