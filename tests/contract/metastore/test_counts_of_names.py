"""Names that a reader makes up do not pile up without end, and those of one caller keep no other caller out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import ResourceExhausted
from lakelog.format.tables.table import TableInfo
from metastore.retention import snapshot_leases
from metastore.snapshots import consumers
from tests.support.metastore.making import append, make_table
from tests.support.metastore.parties import Parties, open_parties


@pytest.fixture(scope="module", params=["memory", "postgres"])
def parties(request: pytest.FixtureRequest) -> Iterator[Parties]:
    url = request.getfixturevalue("module_url") if request.param == "postgres" else None
    with open_parties(url) as opened:
        yield opened


def lease(who: GrpcMetastore, table: TableInfo, name: str) -> None:
    who.lease_snapshot(table.table_uuid, name, 1, 60_000)


def open_consumer(who: GrpcMetastore, table: TableInfo, name: str) -> None:
    who.open_consumer(name, [table.table_uuid], "h")


def release(who: GrpcMetastore, table: TableInfo, name: str) -> None:
    who.release_snapshot(table.table_uuid, name)


def delete_consumer(who: GrpcMetastore, table: TableInfo, name: str) -> None:
    who.delete_consumer(table.table_uuid, name)


Act = Callable[[GrpcMetastore, TableInfo, str], None]


@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
@pytest.mark.parametrize(
    ("make", "end", "reason"),
    [(lease, release, "TOO_MANY_LEASES"), (open_consumer, delete_consumer, "TOO_MANY_CONSUMERS")],
    ids=["leases", "consumers"],
)
def test_a_caller_has_a_limit_of_its_own_in_each_table(
    parties: Parties, monkeypatch: pytest.MonkeyPatch, make: Act, end: Act, reason: str, is_bounded: bool
) -> None:
    most = 3 if is_bounded else 1 << 40
    monkeypatch.setattr(snapshot_leases, "MAX_LEASES", most)
    monkeypatch.setattr(consumers, "MAX_CONSUMERS", most)
    table, other = make_table(parties.root), make_table(parties.root)
    for each in (table, other):
        append(parties.alice, each, 1, writer=f"w{each.table_uuid}")
    for number in range(3):
        make(parties.alice, table, f"a{number}")
    if not is_bounded:
        for number in range(3, 20):
            make(parties.alice, table, f"a{number}")
        return
    with pytest.raises(ResourceExhausted, match=r"has 3 .* of alice, which is the limit of one caller") as caught:
        make(parties.alice, table, "a3")
    assert caught.value.reason == reason
    # Those that are there go on.
    make(parties.alice, table, "a1")
    make(parties.alice, other, "a3")
    make(parties.bob, table, "b0")
    end(parties.alice, table, "a0")
    make(parties.alice, table, "a3")
