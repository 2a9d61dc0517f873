"""Actions on a consumer of a table: reset, delete."""

from __future__ import annotations

from typing import Final

from lakelog.cli.output.text import plural
from lakelog.errors import InvalidArgument
from lakelog.format.retention.consumer import Consumer
from lakelog.sdk.tables.table import Table

from ..page import PageRequest
from .action import Field, Question, number_of, value_of
from .on_tables import on_table


def _find_consumer(request: PageRequest, table: Table) -> Consumer:
    consumer_id = value_of(request, "consumer")
    found = request.catalog.metastore.list_consumers(table.uuid)
    consumer = next((each for each in found if each.consumer_id == consumer_id), None)
    if consumer is None:
        raise InvalidArgument(f"{table.name} has no consumer {consumer_id!r:.200}.", metadata={"field": "consumer"})
    return consumer


def _find_unchanged(request: PageRequest, table: Table) -> Consumer:
    consumer = _find_consumer(request, table)
    if value_of(request, "epoch") != str(consumer.epoch):
        raise InvalidArgument(f"Consumer {consumer.consumer_id} was opened or reset since this page: look again.")
    return consumer


def _describe(consumer: Consumer, table: Table) -> list[str]:
    latest = table.info.latest_snapshot_id
    done = consumer.snapshot_id
    where = (
        f"Consumer {consumer.consumer_id} has done nothing yet."
        if done is None
        else f"Consumer {consumer.consumer_id} has done snapshot {done}; {plural(latest - done, 'snapshot')} are left."
    )
    reads = f" {consumer.holder} reads under its name, and stops with an error." if consumer.holder else ""
    return [where + reads]


def _ask_reset(request: PageRequest, table: Table) -> Question:
    consumer, latest = _find_consumer(request, table), table.info.latest_snapshot_id
    to = value_of(request, "to", str(latest))
    return Question(
        [
            *_describe(consumer, table),
            "It goes on after the snapshot that you name: what lies before is not read again, and what it skips is "
            "not read at all.",
        ],
        ("consumers", "reset", "--to", to or str(latest)),
        (Field("to", "Goes on after snapshot", to, f"0: begins with the first; the newest is {latest}"),),
        {"consumer": consumer.consumer_id, "epoch": str(consumer.epoch)},
        is_dangerous=True,
        command_names=(table.name, consumer.consumer_id),
    )


def _reset(request: PageRequest, table: Table) -> str:
    consumer = _find_unchanged(request, table)
    to = number_of(request, "to", "Goes on after snapshot")
    table.consumers.reset(consumer.consumer_id, to)
    return f"Consumer {consumer.consumer_id} of {table.name} goes on after snapshot {to}."


def _ask_delete(request: PageRequest, table: Table) -> Question:
    consumer = _find_consumer(request, table)
    return Question(
        [
            *_describe(consumer, table),
            "Its position is forgotten, and snapshots that only it needs may expire.",
        ],
        ("consumers", "delete", "--yes"),
        hidden={"consumer": consumer.consumer_id, "epoch": str(consumer.epoch)},
        is_dangerous=True,
        command_names=(table.name, consumer.consumer_id),
    )


def _delete(request: PageRequest, table: Table) -> str:
    consumer_id = _find_unchanged(request, table).consumer_id
    table.consumers.delete(consumer_id)
    return f"Consumer {consumer_id} of {table.name} is forgotten."


RESET: Final = on_table("Reset a consumer", _ask_reset, _reset, "streams")
DELETE: Final = on_table("Delete a consumer", _ask_delete, _delete, "streams")
