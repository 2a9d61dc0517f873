"""Grants: made, changed, taken back and listed; they go with their database or table, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument, NotFound, ResourceExhausted
from lakelog.format.jobs.job import PURGE
from lakelog.format.tables.grant import Grant, GrantLevel
from lakelog.format.tables.table import TableInfo, TableName
from metastore.grants import grants
from metastore.ownership import Principal
from metastore.testing import InProcessMetastore
from tests.support.metastore.making import append, make_table

READER, WRITER, OWNER = GrantLevel


def shown(found: list[Grant]) -> list[tuple[str, str, str]]:
    return [(each.principal, each.scope, each.level.name.lower()) for each in found]


def grant_on(metastore: Metastore, table: TableInfo, level: GrantLevel, principal: str) -> Grant:
    return metastore.grant(table.name.database, table.name.name, level, principal).grant


def allowed(metastore: Metastore, principal: str, table: TableInfo, level: GrantLevel = READER) -> bool:
    return metastore.check_access(principal, level, [table.table_uuid]) == []


def test_grants_are_listed_by_scope_and_by_caller(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    on_database = metastore.grant("shop", "", WRITER, "team").grant
    on_table = grant_on(metastore, table, READER, "bob")
    grant_on(metastore, table, OWNER, "ann@example.org")
    assert shown(metastore.list_grants("shop")) == [("team", "shop", "writer")]
    names = [("ann@example.org", str(table.name), "owner"), ("bob", str(table.name), "reader")]
    assert shown(metastore.list_grants("shop", table.name.name)) == names
    assert metastore.list_grants("shop", table.name.name, "bob") == [on_table]
    assert metastore.list_grants("shop", other.name.name) == []
    assert metastore.list_grants("shop", table.name.name, "team") == [], "it has one on the database only"
    grant_on(metastore, other, READER, "team")
    assert metastore.list_grants(principal="team")[0] == on_database
    assert shown(metastore.list_grants(principal="team"))[1:] == [("team", str(other.name), "reader")]
    assert metastore.list_grants(principal="no-one") == []
    assert metastore.list_grants() == [], "a caller that is not identified has none"


def test_granting_again_changes_the_level_and_nothing_else(metastore: Metastore) -> None:
    table = make_table(metastore)
    first = grant_on(metastore, table, WRITER, "bob")
    assert grant_on(metastore, table, WRITER, "bob") == first
    lower = grant_on(metastore, table, READER, "bob")
    assert (lower.level, lower.granted_at_ms >= first.granted_at_ms) == (READER, True)
    assert metastore.list_grants("shop", table.name.name) == [lower]


def test_a_grant_is_taken_back_once(metastore: Metastore) -> None:
    table = make_table(metastore)
    grant_on(metastore, table, WRITER, "bob")
    metastore.grant("shop", "", READER, "bob")
    assert allowed(metastore, "bob", table, WRITER)
    metastore.revoke("shop", table.name.name, "bob")
    assert allowed(metastore, "bob", table), "by the database"
    assert not allowed(metastore, "bob", table, WRITER)
    with pytest.raises(
        NotFound, match=rf"bob has no grant on exactly {table.name}.*lakelog grants {table.name} lists"
    ) as caught:
        metastore.revoke("shop", table.name.name, "bob")
    assert caught.value.reason == "GRANT_NOT_FOUND"
    metastore.revoke("shop", "", "bob")
    assert not allowed(metastore, "bob", table)


def test_what_is_checked_and_what_is_refused(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    assert not allowed(metastore, "bob", table)
    grant_on(metastore, table, WRITER, "bob")
    unknown = "0" * 32
    uuids = [other.table_uuid, table.table_uuid, unknown]
    assert metastore.check_access("bob", READER, uuids) == [other.table_uuid, unknown], "in their order"
    assert not allowed(metastore, "bob", table, OWNER)
    assert not allowed(metastore, "Bob", table), "names differ in case"
    metastore.grant("shop", "", OWNER, "team")
    assert metastore.check_access("team", OWNER, uuids) == [unknown]


def test_a_dropped_table_keeps_its_grants_and_a_new_one_of_its_name_has_none(metastore: Metastore) -> None:
    old = make_table(metastore)
    grant_on(metastore, old, OWNER, "bob")
    metastore.drop_table(old.name)
    new, _ = metastore.create_table(old.name, old.schema.arrow)
    assert not allowed(metastore, "bob", new)
    assert metastore.list_grants("shop", old.name.name) == []
    (listed,) = metastore.list_grants(principal="bob")
    assert (listed.table_uuid, listed.scope, listed.dropped_at_ms > 0) == (old.table_uuid, str(old.name), True)
    metastore.restore_table(old.name, table_uuid=old.table_uuid, new_name=TableName("shop", f"{old.name.name}_again"))
    assert allowed(metastore, "bob", old, OWNER)
    (listed,) = metastore.list_grants(principal="bob")
    assert (listed.scope, listed.level, listed.dropped_at_ms) == (f"{old.name}_again", OWNER, 0)


def test_grants_on_dropped_tables_are_listed_and_taken_back_by_the_tables_uuid(metastore: Metastore) -> None:
    old = make_table(metastore)
    for caller in ("bob", "eve"):
        grant_on(metastore, old, WRITER, caller)
    assert {each.table_uuid for each in metastore.list_grants(table_uuid=old.table_uuid)} == {old.table_uuid}
    metastore.drop_table(old.name)
    new, _ = metastore.create_table(old.name, old.schema.arrow)
    grant_on(metastore, new, READER, "bob")
    both = metastore.list_grants(principal="bob")
    assert [(each.scope, each.level, each.dropped_at_ms > 0) for each in both if each.table_uuid == new.table_uuid] == [
        (str(old.name), READER, False)
    ]
    assert [each.principal for each in metastore.list_grants(table_uuid=old.table_uuid)] == ["bob", "eve"]
    assert [each.principal for each in metastore.list_grants(table_uuid=old.table_uuid, principal="eve")] == ["eve"]
    metastore.revoke("", "", "bob", table_uuid=old.table_uuid)
    assert not allowed(metastore, "bob", old), "also for the keys of its files"
    assert allowed(metastore, "bob", new), "by its name stands the new one"
    assert allowed(metastore, "eve", old, WRITER)
    # With what an owner may call, too.
    remedy = f"bob has no grant on exactly table {old.table_uuid}.*lakelog grants --uuid {old.table_uuid} lists"
    with pytest.raises(NotFound, match=remedy):
        metastore.revoke("", "", "bob", table_uuid=old.table_uuid)
    # A live table can be named so as well.
    metastore.revoke("", "", "bob", table_uuid=new.table_uuid)
    assert metastore.list_grants(principal="bob") == []


def test_a_table_is_named_in_one_way(metastore: Metastore) -> None:
    table = make_table(metastore)
    for database, name, table_uuid in (("shop", "", table.table_uuid), ("shop", table.name.name, table.table_uuid)):
        with pytest.raises(InvalidArgument, match="by its uuid or by its name"):
            metastore.revoke(database, name, "bob", table_uuid=table_uuid)
        with pytest.raises(InvalidArgument, match="by its uuid or by its name"):
            metastore.list_grants(database, name, table_uuid=table_uuid)
    for call in (lambda: metastore.revoke("", "", "bob"), lambda: metastore.list_grants(table_uuid="x")):
        with pytest.raises(InvalidArgument):
            call()
    with pytest.raises(NotFound):
        metastore.list_grants(table_uuid="0" * 32)


def test_without_identified_callers_a_grant_says_that_it_has_no_effect(metastore: Metastore) -> None:
    make_table(metastore)
    assert metastore.grant("shop", "", READER, "bob").has_no_effect
    assert metastore.grant("shop", "", READER, "bob").has_no_effect, "again"


def test_a_grant_on_a_database_goes_with_it(metastore: Metastore) -> None:
    metastore.create_database("team_a")
    metastore.grant("team_a", "", OWNER, "bob")
    old, _ = metastore.create_table(TableName("team_a", "t"), make_table(metastore).schema.arrow)
    metastore.grant("team_a", "t", READER, "eve")
    assert allowed(metastore, "bob", old, OWNER)
    metastore.drop_table(old.name)
    assert allowed(metastore, "bob", old, OWNER), "its database is still there"
    metastore.drop_database("team_a")
    metastore.create_database("team_a")
    assert metastore.list_grants("team_a") == []
    metastore.grant("team_a", "", OWNER, "new-owner")
    assert not allowed(metastore, "bob", old)
    assert not allowed(metastore, "new-owner", old), "it was in another database of this name"
    metastore.restore_table(old.name)
    assert allowed(metastore, "new-owner", old)
    assert allowed(metastore, "eve", old)


def test_a_purged_table_takes_its_grants_along(brief_metastore: Metastore) -> None:
    metastore = brief_metastore
    table = make_table(metastore)
    append(metastore, table, 1)
    grant_on(metastore, table, OWNER, "bob")
    metastore.drop_table(table.name)
    leased = metastore.lease_job([PURGE], [table.table_uuid], "c", duration_ms=60_000, wait_ms=5000)
    assert leased is not None
    metastore.begin_purge(leased.job_id, leased.epoch)
    while metastore.purge_rows(leased.job_id, leased.epoch):
        pass
    assert not metastore.finish_job(leased.job_id, leased.epoch)
    assert not allowed(metastore, "bob", table)


@pytest.mark.parametrize(
    ("database", "table", "principal", "field"),
    [
        ("shop", "", "", "principal"),
        ("shop", "", "a b", "principal"),
        ("shop", "", "x" * 257, "principal"),
        ("", "", "bob", "database"),
        ("", "t", "bob", "database"),
        ("1", "", "bob", "database"),
        ("shop", "a-b", "bob", "table"),
    ],
)
def test_bad_input(metastore: Metastore, database: str, table: str, principal: str, field: str) -> None:
    for call in (
        lambda: metastore.grant(database, table, READER, principal),
        lambda: metastore.revoke(database, table, principal),
    ):
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert caught.value.metadata["field"] == field


def test_scopes_that_do_not_exist(metastore: Metastore) -> None:
    metastore.create_database("shop", if_not_exists=True)
    calls: list[Callable[[str, str], object]] = [
        lambda database, table: metastore.grant(database, table, READER, "bob"),
        lambda database, table: metastore.revoke(database, table, "bob"),
        metastore.list_grants,
    ]
    for database, table, reason in (("shop", "none", "TABLE_NOT_FOUND"), ("none", "", "DATABASE_NOT_FOUND")):
        for call in calls:
            with pytest.raises(NotFound) as caught:
                call(database, table)
            assert caught.value.reason == reason


def test_grants_of_one_owner_keep_no_other_from_granting(
    log_metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "MAX_GRANTS", 2)
    owner, other = (log_metastore.acting_as(Principal(name, False)) for name in ("mallory", "ann"))
    tables = [make_table(log_metastore) for _ in range(3)]
    for table in tables[:2]:
        grant_on(owner, table, READER, "bob")
        # A dropped table counts on, because it can be restored.
        log_metastore.drop_table(table.name)
    with pytest.raises(ResourceExhausted, match="From mallory bob has 2 grants"):
        grant_on(owner, tables[2], READER, "bob")
    assert grant_on(other, tables[2], READER, "bob").granted_by == "ann"


def test_grants_are_bounded(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "MAX_GRANTS", 2)
    table, other = make_table(metastore), make_table(metastore)
    grant_on(metastore, table, READER, "a")
    grant_on(metastore, table, READER, "b")
    with pytest.raises(ResourceExhausted, match=rf"On {table.name} there are 2 grants.*Grant on a database") as caught:
        grant_on(metastore, table, READER, "c")
    assert caught.value.reason == "TOO_MANY_GRANTS"
    assert grant_on(metastore, table, OWNER, "a").level is OWNER, "it is none more"
    grant_on(metastore, other, READER, "a")
    with pytest.raises(ResourceExhausted, match="From you a has 2 grants"):
        metastore.grant("shop", "", READER, "a")
    assert len(metastore.list_grants(principal="a")) == 2
    assert metastore.list_grants("shop") == metastore.list_grants(principal="c") == []
