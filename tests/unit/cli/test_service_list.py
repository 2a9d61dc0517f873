"""What `lakelog status` says of services."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakelog.cli.commands.health.service_list import COLUMNS, describe_service, sum_up_services, to_rows
from lakelog.format.jobs.presence import Service, ServiceState

NOW_MS = 1_700_000_000_000

COMPACTOR = Service(
    kind="compactor",
    instance_id="a" * 32,
    host="node-7",
    pid=17,
    version="0.1.0",
    state=ServiceState.RUNNING,
    work=("compact shop.orders",),
    metrics="node-7:9464",
    started_at_ms=NOW_MS - 7_260_000,
    silent_ms=3_000,
    ttl_ms=20_000,
)
WRITER = replace(COMPACTOR, kind="writer", work=("flights", "orders"), metrics="", silent_ms=12_000)


def shown(service: Service) -> dict[str, str]:
    (row,) = to_rows([describe_service(service, NOW_MS)])
    return {column.title: column.cell(row).text for column in COLUMNS}


def test_a_record_has_all_that_is_known() -> None:
    assert describe_service(COMPACTOR, NOW_MS) == {
        "kind": "compactor",
        "liveness": "present",
        "state": "running",
        "work": ["compact shop.orders"],
        "host": "node-7",
        "pid": 17,
        "version": "0.1.0",
        "metrics": "node-7:9464",
        "started_at": "2023-11-14T20:12:20.000Z",
        "uptime_ms": 7_260_000,
        "silent_ms": 3_000,
        "instance_id": "a" * 32,
    }
    assert describe_service(WRITER, NOW_MS)["metrics"] is None
    # The clocks of two machines differ.
    assert describe_service(COMPACTOR, COMPACTOR.started_at_ms - 5)["uptime_ms"] == 0


def test_a_row_says_it_in_words() -> None:
    assert shown(COMPACTOR) == {
        "SERVICE": "compactor",
        "STATE": "running",
        "WORKS AT": "compact shop.orders",
        "HOST": "node-7",
        "PID": "17",
        "STARTED": "2 h 1 min ago",
        "VERSION": "0.1.0",
        "METRICS": "node-7:9464",
    }
    assert shown(WRITER)["WORKS AT"] == "flights, orders"


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"state": ServiceState.DRAINING}, "draining"),
        ({"silent_ms": 9_999}, "running"),
        ({"silent_ms": 12_000}, "silent for 12 s"),
        ({"silent_ms": 185_000}, "gone for 3 min 5 s"),
    ],
)
def test_states(changes: dict[str, Any], state: str) -> None:
    assert shown(replace(COMPACTOR, **changes))["STATE"] == state


def test_those_that_need_attention_come_first() -> None:
    gone = replace(COMPACTOR, kind="reader", silent_ms=30_000)
    records = [describe_service(service, NOW_MS) for service in (COMPACTOR, gone, WRITER)]
    assert [row["kind"] for row in to_rows(records)] == ["writer", "reader", "compactor"]
    # In JSON they stand as the metastore lists them.
    assert [record["kind"] for record in records] == ["compactor", "reader", "writer"]


@pytest.mark.parametrize(
    ("services", "words"),
    [
        ([], "none"),
        ([COMPACTOR, replace(WRITER, silent_ms=0), replace(WRITER, silent_ms=0)], "1 compactor, 2 writers"),
        ([COMPACTOR, WRITER, replace(WRITER, silent_ms=20_000)], "1 compactor; 1 silent, 1 gone"),
        ([WRITER], "none; 1 silent"),
    ],
)
def test_the_line_that_sums_up(services: list[Service], words: str) -> None:
    assert sum_up_services([describe_service(service, NOW_MS) for service in services]) == words
