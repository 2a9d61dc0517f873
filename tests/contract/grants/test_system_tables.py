"""Catalog-wide system tables show what a caller may see, and those of a table need what its reading needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from lakelog.errors import LakelogError
from lakelog.pictures.amplification import load_amplification
from lakelog.pictures.files import load_files
from lakelog.pictures.freshness import load_freshness
from lakelog.pictures.lag import load_lag
from lakelog.pictures.levels import load_levels
from lakelog.pictures.path import load_path
from lakelog.pictures.timeline import load_timeline
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from lakelog.system_tables.registry import OF_TABLES
from metastore.server.privileges.outcomes import CallerKind
from tests.contract.grants.world import ELSEWHERE, KINDS, READER, STRANGER, World, name_of, open_world


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as opened:
        yield opened


def open_catalog(world: World, name: str) -> Catalog:
    return Catalog(world.connect(name), LocationStores())


def tables_of(catalog: Catalog, name: str) -> set[str]:
    column = "name" if name == "sys.tables" else "table"
    rows = catalog.system_table(name).scan(["database", column]).to_arrow().to_pylist()
    return {f"{row['database']}.{row[column]}" for row in rows}


def test_what_is_hidden(world: World) -> None:
    with closing(open_catalog(world, "root")) as root:
        assert tables_of(root, "sys.tables") >= {"shop.orders", "other.orders"}
        assert "shop.orders" in tables_of(root, "sys.jobs") & tables_of(root, "sys.consumers")
    with closing(open_catalog(world, name_of(ELSEWHERE))) as catalog:
        assert tables_of(catalog, "sys.tables") == {"other.orders"}
        assert {"shop.orders"}.isdisjoint(tables_of(catalog, "sys.jobs") | tables_of(catalog, "sys.consumers"))
        assert catalog.system_table("sys.pipelines").scan(["table"]).to_arrow().num_rows == 0
        databases = catalog.system_table("sys.databases").scan(["name"]).to_arrow()
        assert databases.column("name").to_pylist() == ["other"]


@pytest.mark.parametrize("caller", [ELSEWHERE, *(kind for kind in KINDS if kind == STRANGER)], ids=name_of)
@pytest.mark.parametrize("kind", OF_TABLES)
def test_who_may_not_read_a_table(world: World, caller: CallerKind, kind: str) -> None:
    with closing(open_catalog(world, name_of(caller))) as catalog, pytest.raises(LakelogError):
        catalog.system_table(f"shop.orders${kind}").scan()


def test_readers_of_a_table_read_its_system_tables(world: World) -> None:
    reader = next(kind for kind in KINDS if kind.at_table is READER)
    with closing(open_catalog(world, name_of(reader))) as catalog:
        for kind in OF_TABLES:
            catalog.system_table(f"shop.orders${kind}").scan()
        assert "other.orders" not in tables_of(catalog, "sys.tables")
        assert "shop.orders" in tables_of(catalog, "sys.tables")


def test_readers_of_a_table_see_its_pictures_and_no_pipeline_of_another(world: World) -> None:
    reader = next(kind for kind in KINDS if kind.at_table is READER)
    with closing(open_catalog(world, name_of(reader))) as catalog:
        table = catalog.table("shop.orders")
        for load in (load_amplification, load_files, load_freshness, load_lag, load_levels, load_path, load_timeline):
            assert load(table).table == "shop.orders"
        seen = {each.table for each in catalog.metastore.list_pipelines()}
        assert seen <= {"shop.orders"}
