"""Which attempts are told of before their commits, and when it is known that none of theirs will come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.facts import AttemptState, SentAttempt
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.records import FetchedRecords
from lakelog.reads.streams.uncommitted.attempts import OpenAttempts
from tests.support.log.fetched import make_fetched
from tests.support.snapshots import make_snapshot

FIRST, SECOND = "a" * 32, "b" * 32
SCHEMA = TableSchema(0, assign_field_ids(pa.schema([("v", pa.int64())])), ())
TABLE = TableInfo("0" * 32, TableName("shop", "orders"), "file:///w/", SCHEMA, {}, 0, 0)


@dataclass
class _Metastore:
    states: dict[str, AttemptState] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    latest: int = 0
    table: TableInfo = TABLE

    def find_attempts(self, _table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, SentAttempt]:
        return {
            each: SentAttempt(self.states.get(each, AttemptState.OPEN), each in self.silent, opened_ms=7)
            for each in attempt_ids
        }

    def get_table_by_uuid(self, _table_uuid: str) -> TableInfo:
        return self.table

    def list_latest(self, _table_uuids: Sequence[str]) -> Any:
        return [make_snapshot(self.latest)]


def make_records(*rows: tuple[str, int]) -> FetchedRecords:
    records = make_fetched([b""] * len(rows))
    attempts = pa.array([attempt.encode() for attempt, _ in rows], pa.binary())
    return replace(records, attempts=attempts, indexes=pa.array([index for _, index in rows], pa.int64()))


@pytest.fixture
def metastore() -> _Metastore:
    return _Metastore()


@pytest.fixture
def attempts(metastore: _Metastore) -> OpenAttempts:
    return OpenAttempts(cast("Metastore", metastore), TABLE, 0, counts=True)


def pick(attempts: OpenAttempts, *rows: tuple[str, int]) -> dict[str, list[int]]:
    return {name: places.tolist() for name, places in attempts.pick(make_records(*rows))}


def test_what_comes_twice_is_picked_once(attempts: OpenAttempts) -> None:
    assert pick(attempts, (FIRST, 1), (SECOND, 0), (FIRST, 0), (FIRST, 1)) == {FIRST: [2, 0], SECOND: [1]}
    assert pick(attempts, (FIRST, 1), (FIRST, 2), (SECOND, 0)) == {FIRST: [1]}
    assert attempts.has_all(FIRST, 3)
    assert attempts.lacks_some(SECOND, 2)


def test_only_attempts_that_are_open_are_emitted(metastore: _Metastore, attempts: OpenAttempts) -> None:
    metastore.states = {FIRST: AttemptState.COMMITTED, SECOND: AttemptState.ABORTED}
    assert pick(attempts, (FIRST, 0), (SECOND, 0)) == {}


@pytest.mark.parametrize("schema_id", [0, 1])
def test_in_an_altered_table_only_attempts_opened_since_are_emitted(metastore: _Metastore, schema_id: int) -> None:
    """An earlier one may send records with other columns."""
    table = replace(TABLE, schema=replace(SCHEMA, schema_id=schema_id))
    metastore.table = table
    attempts = OpenAttempts(cast("Metastore", metastore), table, 0, counts=True)
    assert (pick(attempts, (FIRST, 0)) == {}) is bool(schema_id)
    since = OpenAttempts(cast("Metastore", metastore), table, -300_000, counts=True)
    assert pick(since, (FIRST, 0)) == {FIRST: [0]}


def test_what_was_given_up_is_known_at_once(metastore: _Metastore, attempts: OpenAttempts) -> None:
    pick(attempts, (FIRST, 0), (SECOND, 0))
    metastore.states = {FIRST: AttemptState.ABORTED}
    assert attempts.find_given_up(0) == [FIRST]


@pytest.fixture
def keyed(metastore: _Metastore) -> OpenAttempts:
    return OpenAttempts(cast("Metastore", metastore), TABLE, 0, counts=False)


def test_what_a_silent_writer_sent_is_given_up_until_it_is_heard_of_again(
    metastore: _Metastore, keyed: OpenAttempts
) -> None:
    pick(keyed, (FIRST, 0), (SECOND, 0))
    metastore.silent = {FIRST}
    assert keyed.find_given_up(0) == [FIRST]
    keyed.forget(FIRST)
    assert pick(keyed, (FIRST, 1)) == {}
    metastore.silent = set()
    assert pick(keyed, (FIRST, 2)) == {FIRST: [0]}
    assert keyed.opened_ms(FIRST) == 7


def test_what_cannot_be_taken_back_stays_though_its_writer_is_silent(
    metastore: _Metastore, attempts: OpenAttempts
) -> None:
    pick(attempts, (FIRST, 0))
    metastore.silent = {FIRST, SECOND}
    assert attempts.find_given_up(0) == []
    assert pick(attempts, (FIRST, 1), (SECOND, 0)) == {FIRST: [0]}
    assert attempts.has_all(FIRST, 2)


def test_what_was_committed_is_given_up_only_once_its_snapshot_would_have_come(
    metastore: _Metastore, attempts: OpenAttempts
) -> None:
    """Its snapshot is on its way. Where it never comes, the commit was of another table, or is passed over."""
    pick(attempts, (FIRST, 0))
    metastore.states, metastore.latest = {FIRST: AttemptState.COMMITTED}, 5
    assert attempts.find_given_up(4) == []
    metastore.latest = 9
    assert attempts.find_given_up(4) == []
    assert attempts.find_given_up(5) == [FIRST]
