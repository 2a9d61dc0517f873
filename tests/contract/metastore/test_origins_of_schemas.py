"""When a version of a schema was made, and by whom: as long as the table lives, whatever becomes of its snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.grant import GrantLevel
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.column_changes import AddColumn, DropColumn
from metastore.postgres.connection.connections import libpq_url
from tests.contract.metastore.restoring import restore
from tests.support.metastore.making import SCHEMA, append, make_table
from tests.support.metastore.opening import open_in_process
from tests.support.metastore.parties import Parties, open_parties

Origin = tuple[int | None, str]


@pytest.fixture(scope="module", params=["memory", "postgres"])
def parties(request: pytest.FixtureRequest) -> Iterator[Parties]:
    url = request.getfixturevalue("module_url") if request.param == "postgres" else None
    with open_parties(url) as opened:
        yield opened


def list_origins(metastore: Metastore, table: TableInfo) -> list[Origin]:
    return [(each.created_at_ms, each.created_by) for each in metastore.list_schemas(table.table_uuid)]


def now_ms(metastore: Metastore) -> int:
    """By the store's clock."""
    return metastore.get_overview().now_ms


def test_each_version_has_its_time_by_the_stores_clock(metastore: Metastore) -> None:
    table = make_table(metastore)
    before_ms = now_ms(metastore)
    altered = metastore.alter_columns(table.table_uuid, changes=[AddColumn("x", "INT")])
    after_ms = now_ms(metastore)
    metastore.alter_columns(table.table_uuid, changes=[], comment="only the comment")
    first, second = list_origins(metastore, table)
    assert first == (table.created_at_ms, "") == (table.schema.created_at_ms, "")
    assert second == (altered.schema.created_at_ms, "")
    assert second[0] is not None
    assert before_ms <= second[0] <= after_ms
    assert metastore.get_table(table.name).schema.created_at_ms == second[0]
    assert metastore.plan(PlanRequest(table.table_uuid)).schema.created_at_ms == second[0]


def test_the_same_columns_are_equal_whenever_they_were_made(metastore: Metastore) -> None:
    """Caches and comparisons go by columns."""
    one, other = make_table(metastore), make_table(metastore)
    assert one.schema == other.schema
    assert hash(one.schema) == hash(other.schema)


def test_the_caller_is_named(parties: Parties) -> None:
    table = make_table(parties.root)
    parties.root.grant("shop", table.name.name, GrantLevel.OWNER, "alice")
    parties.alice.alter_columns(table.table_uuid, changes=[AddColumn("x", "INT")])
    parties.root.alter_columns(table.table_uuid, changes=[DropColumn("x")])
    assert [by for _, by in list_origins(parties.bob, table)] == ["root", "alice", "root"]


def test_what_brings_a_state_or_a_table_back_leaves_them(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    altered = metastore.alter_columns(table.table_uuid, changes=[AddColumn("x", "INT")])
    append(metastore, altered, 2)
    known = list_origins(metastore, table)
    restore(metastore, altered, 1)
    assert list_origins(metastore, table) == known
    assert metastore.drop_table(table.name)
    metastore.restore_table(table.name)
    assert list_origins(metastore, table) == known


def test_a_new_table_of_the_name_begins_again(metastore: Metastore) -> None:
    old = make_table(metastore)
    metastore.alter_columns(old.table_uuid, changes=[AddColumn("x", "INT")])
    metastore.drop_table(old.name)
    before_ms = now_ms(metastore)
    new, _ = metastore.create_table(old.name, SCHEMA, primary_key=["id"], options={"bucket": "4"})
    ((made_ms, _),) = list_origins(metastore, new)
    assert made_ms == new.created_at_ms >= before_ms


def test_versions_of_an_older_metastore_have_no_time(migrated_url: str) -> None:
    """It serves the database during a rollout, and names the columns that it knows."""
    with closing(open_in_process(migrated_url)) as metastore:
        table = make_table(metastore)
        with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
            connection.execute(
                "INSERT INTO schema_version (table_id, schema_id, arrow_schema, primary_key, partition_by) "
                "SELECT table_id, 1, arrow_schema, primary_key, partition_by FROM schema_version"
            )
            connection.execute("UPDATE table_head SET schema_id = 1")
        assert list_origins(metastore, table) == [(table.created_at_ms, ""), (None, "")]
        assert metastore.get_table(table.name).schema.created_at_ms is None
        altered = metastore.alter_columns(table.table_uuid, changes=[AddColumn("x", "INT")])
        assert altered.schema.created_at_ms is not None
