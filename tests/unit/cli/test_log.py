"""`lakelog log`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lakelog.format.log.state import LogInfo, PublishState
from lakelog.format.tables.table import TableName
from lakelog.log.tally import LogFindings
from lakelog.system_tables.metadata.log_status import LogStatus
from tests.unit.cli.fakes import Lake

INFO = LogInfo("a" * 32, TableName("shop", "orders"), "shop_orders", "id", 2, 5, False, {"log.system": "kafka"})
STATE = PublishState("a" * 32, 2, 7, "b" * 32, 0, "", (4, 4), 9, 1, "publisher host 1")
FINE = LogFindings(90, 90, 3, 0, 0, 0, 0, (), 0, 0, 0, ())


@pytest.fixture
def log_lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    restarted = replace(INFO, generation=3, starts_after=9)
    monkeypatch.setattr(lake.metastore, "get_log", lambda uuid: INFO, raising=False)
    monkeypatch.setattr(lake.metastore, "restart_log", lambda uuid: restarted, raising=False)
    monkeypatch.setattr(lake.catalog, "open_store", lambda info: None, raising=False)
    monkeypatch.setattr(lake.table, "name", "shop.orders", raising=False)
    monkeypatch.setattr("lakelog.cli.commands.log._open_log", lambda info: None)
    return lake


def show(lake: Lake, monkeypatch: pytest.MonkeyPatch, *found: LogStatus) -> None:
    monkeypatch.setattr("lakelog.cli.commands.log.load_log_status", lambda metastore, uuids, now_ms: list(found))


def test_status_shows_how_far_it_is_and_why_it_stands_still(log_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = LogStatus(INFO, STATE, 2, 2, 1234, False, 61_000)
    stuck = replace(behind, state=replace(STATE, holder="", problem="the topic was cut"))
    alone = replace(behind, state=replace(STATE, holder=""))
    show(log_lake, monkeypatch, behind, stuck, alone)
    shown = log_lake.run("log", "status", width=200)
    assert shown.code == 0
    assert "1,234" in shown.out
    assert "publisher host 1" in shown.out
    assert shown.err.splitlines() == [
        "shop.orders: the topic was cut",
        "shop.orders: No publisher serves it: start one (lakelog publisher run).",
    ]
    (document, *_) = json.loads(log_lake.run("log", "status", "shop.orders", "-o", "json").out)
    assert document["published_snapshot_id"] == 7
    assert (document["snapshots_behind"], document["behind_ms"], document["problem"]) == (2, 61_000, None)
    show(log_lake, monkeypatch)
    assert "No table has a log" in log_lake.run("log", "status").out


def test_where_counting_stopped_there_may_be_more(log_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    further = LogStatus(INFO, STATE, 2, 1000, 30_000, True, 61_000)
    show(log_lake, monkeypatch, further)
    (row,) = [line.split() for line in log_lake.run("log", "status", width=200).out.splitlines() if "orders" in line]
    assert "1,000+" in row
    assert "30,000+" in row
    (document,) = json.loads(log_lake.run("log", "status", "-o", "json").out)
    assert (document["snapshots_behind"], document["rows_behind"], document["is_further_behind"]) == (
        1000,
        30_000,
        True,
    )
    assert document.keys().isdisjoint({"behind", "rows"})
    monkeypatch.setattr("lakelog.cli.commands.log.verify_log", lambda *_: FINE)
    reported = log_lake.run("log", "verify", "shop.orders").err
    assert "Not published when the check began: at least 1,000 snapshots" in reported
    # As many as were counted, and none behind them.
    show(log_lake, monkeypatch, replace(further, is_further=False))
    assert "1,000+" not in log_lake.run("log", "status", width=200).out


@pytest.mark.parametrize(
    ("found", "code", "reported"),
    [
        (FINE, 0, ""),
        (
            replace(FINE, lost=2, torn=(8,), examples=("snapshot 8 lacks 2 rows",)),
            1,
            "2 lost rows, 1 torn snapshot; for",
        ),
        (replace(FINE, duplicates=1), 1, "1 duplicate record;"),
        (replace(FINE, compacted=9, expired=9, earlier=9), 0, ""),
    ],
)
def test_verify_ends_with_a_code(
    log_lake: Lake, monkeypatch: pytest.MonkeyPatch, found: LogFindings, code: int, reported: str
) -> None:
    def verify(*_: Any) -> LogFindings:
        return found

    monkeypatch.setattr("lakelog.cli.commands.log.verify_log", verify)
    show(log_lake, monkeypatch, LogStatus(INFO, STATE, 2, 2, 1234, False, 61_000))
    shown = log_lake.run("log", "verify", "shop.orders")
    assert shown.code == code
    assert reported in shown.err
    assert "Records read" in shown.out
    assert "Not published when the check began: 2 snapshots" in shown.err
    document = json.loads(log_lake.run("log", "verify", "shop.orders", "-o", "json").out)
    assert (document["is_fine"], document["lost"]) == (code == 0, found.lost)


def test_verify_says_nothing_of_a_log_that_is_not_behind(log_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.cli.commands.log.verify_log", lambda *_: FINE)
    show(log_lake, monkeypatch, LogStatus(INFO, STATE, 0, 0, 0, False, 0))
    assert log_lake.run("log", "verify", "shop.orders").err == ""


def test_restart_asks_and_shows_where_it_begins(log_lake: Lake) -> None:
    assert "generation 3" in log_lake.run("log", "restart", "shop.orders", "--yes").out
    assert log_lake.run("log", "restart", "shop.orders").code != 0
