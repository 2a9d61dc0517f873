"""Two groups of metastores, each with a database of its own, over one bucket: tables of one name stay apart."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.cli.app import run
from lakelog.errors import InvalidArgument, LakelogError, NotFound
from lakelog.sdk.catalog import Catalog
from lakelog.sql import SqlSession
from metastore.store.transaction import Store
from metastore.use_cases import UseCases
from tests.support.metastore.serving import serving

ROWS = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})


@pytest.fixture
def sales(migrated_url: str, module_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """The catalog `sales`, beside `web`."""

    def make_use_cases(store: Store) -> UseCases:
        return UseCases(store, f"file://{tmp_path}/warehouse")

    with serving(migrated_url, make_use_cases) as sales, serving(module_url, make_use_cases) as web:
        path = tmp_path / "catalogs.toml"
        path.write_text(f'[sales]\ntarget = "{sales}"\n[web]\ntarget = "{web}"\n')
        monkeypatch.setenv("LAKELOG_CATALOGS", str(path))
        with lakelog.connect(catalog="sales") as catalog:
            for each in (catalog, catalog.catalog("web")):
                each.create_database("shop", if_not_exists=True)
                each.create_table("shop.orders", ROWS.schema, primary_key=["k"])
            yield catalog
            catalog.catalog("web").drop_database("shop", cascade=True)


def read(catalog: Catalog) -> list[dict[str, object]]:
    return sorted(catalog.table("shop.orders").scan().to_arrow().to_pylist(), key=lambda row: str(row["k"]))


def test_tables_of_the_same_name_do_not_touch_each_other(sales: Catalog) -> None:
    web = sales.catalog("web")
    assert web is sales.catalog("web") is not sales is sales.catalog("sales")
    assert web.catalog("sales") is sales
    assert web.catalog("sales").catalog("web") is web
    with pytest.raises(InvalidArgument, match="catalog='' names no catalog") as refused:
        sales.catalog("")
    assert refused.value.metadata["field"] == "catalog"
    sales.table("shop.orders").upsert(ROWS, writer="w", identifier=1)
    assert read(web) == []
    # The same name and number of a writer: each catalog remembers its own commits.
    web.table("shop.orders").upsert(ROWS.set_column(1, "v", [["x", "y"]]), writer="w", identifier=1)
    assert read(sales) == ROWS.to_pylist()
    assert read(web) == [{"k": 1, "v": "x"}, {"k": 2, "v": "y"}]
    assert sales.table("shop.orders").uuid != web.table("shop.orders").uuid
    assert sales.table("shop.orders").info.location != web.table("shop.orders").info.location
    sales.table("shop.orders").overwrite(ROWS[:1])
    assert read(sales) == ROWS[:1].to_pylist()
    sales.drop_table("shop.orders")
    assert read(web) == [{"k": 1, "v": "x"}, {"k": 2, "v": "y"}]


def test_names_with_three_parts_read_and_write_any_catalog(sales: Catalog) -> None:
    session = SqlSession(sales, "shop")
    session.execute("INSERT INTO orders VALUES (1, 'a')")
    session.execute("INSERT INTO web.shop.orders SELECT k + 1, v FROM sales.shop.orders")
    joined = session.execute(
        "SELECT a.v AS old, b.k AS k FROM shop.orders a JOIN web.shop.orders b ON a.v = b.v"
    ).to_arrow()
    assert joined.to_pylist() == [{"old": "a", "k": 2}]
    listed = session.execute("SELECT count(*) AS n FROM web.shop.`orders$snapshots`").to_arrow()
    assert listed.to_pylist() == [{"n": 1}]
    found = session.execute("SELECT table_catalog, table_name FROM web.information_schema.tables").to_arrow()
    assert found.to_pylist() == [{"table_catalog": "web", "table_name": "orders"}]
    assert session.execute("DESCRIBE web.shop.orders").to_arrow().num_rows == 2
    session.execute("CREATE TABLE sales.shop.more (k BIGINT)")
    assert sales.tables("shop") == ["more", "orders"]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT web.shop.orders.v FROM web.shop.orders WHERE web.shop.orders.k = 1", ["x"]),
        ("SELECT shop.orders.v FROM web.shop.orders WHERE orders.k = 1", ["x"]),
        ("SELECT sales.shop.orders.v FROM shop.orders WHERE k = 1", ["a"]),
        ("SELECT shop.orders.v || web.shop.orders.v FROM shop.orders JOIN web.shop.orders USING (k)", ["ax", "by"]),
        (
            "SELECT sales.shop.orders.v || web.shop.orders.v FROM sales.shop.orders, web.shop.orders "
            "WHERE sales.shop.orders.k = web.shop.orders.k AND web.shop.orders.v = 'y'",
            ["by"],
        ),
        # The name without a catalog means the nearest table, and never one of another SELECT.
        ("SELECT v FROM shop.orders WHERE EXISTS (SELECT 1 FROM web.shop.orders WHERE orders.v = 'x')", ["a", "b"]),
        (
            "SELECT v FROM shop.orders WHERE EXISTS "
            "(SELECT 1 FROM web.shop.orders WHERE web.shop.orders.k = shop.orders.k AND web.shop.orders.v = 'x')",
            ["a"],
        ),
        ("WITH orders AS (SELECT 1 AS k) SELECT web.shop.orders.v FROM web.shop.orders JOIN orders USING (k)", ["x"]),
        ("SELECT a.v FROM web.shop.orders a, shop.orders WHERE a.k = orders.k AND orders.v = 'b'", ["y"]),
    ],
)
def test_columns_take_the_full_names_of_their_tables(sales: Catalog, query: str, rows: list[str]) -> None:
    sales.table("shop.orders").upsert(ROWS)
    sales.catalog("web").table("shop.orders").upsert(ROWS.set_column(1, "v", [["x", "y"]]))
    assert sorted(sales.sql(query).to_arrow().column(0).to_pylist()) == rows


def test_a_column_of_one_of_two_tables_is_refused_with_the_remedy(sales: Catalog) -> None:
    with pytest.raises(
        InvalidArgument, match=r"orders\.v can be a column of .*web\.shop\.orders.*Give the tables aliases"
    ):
        sales.sql("SELECT orders.v FROM shop.orders JOIN web.shop.orders USING (k)")


def test_what_makes_tables_stays_in_the_catalog_of_the_session(sales: Catalog) -> None:
    for statement in ("CREATE TABLE web.shop.t (k BIGINT)", "DROP TABLE web.shop.orders"):
        with pytest.raises(InvalidArgument, match=r"is in another catalog than this session.*connect to 'web'"):
            sales.sql(statement)
    changed = sales.sql("ALTER TABLE web.shop.orders SET ('snapshot.num-retained.min' = '7')")
    assert changed.message == "Options of web.shop.orders changed."
    assert sales.catalog("web").table("shop.orders").info.options["snapshot.num-retained.min"] == "7"
    assert "snapshot.num-retained.min" not in sales.table("shop.orders").info.options
    assert sales.catalog("web").tables("shop") == ["orders"]


def test_messages_name_the_catalog_of_a_name_with_three_parts(sales: Catalog) -> None:
    written = sales.sql("INSERT INTO web.shop.orders VALUES (1, 'x')")
    assert (written.message, written.table) == ("Snapshot 1 of web.shop.orders written.", "web.shop.orders")
    assert sales.sql("INSERT INTO sales.shop.orders VALUES (1, 'x')").table == "shop.orders"
    explained = sales.sql("EXPLAIN INSERT OVERWRITE web.shop.orders SELECT * FROM shop.orders").to_arrow().to_pylist()
    steps = {(row["operation"], row["object"]) for row in explained}
    assert {("scan", "shop.orders"), ("write", "web.shop.orders")} <= steps
    # The other table of that name is read, so it is no guard of this one.
    assert "guard" not in {row["fact"] for row in explained}
    with pytest.raises(InvalidArgument, match=r"The columns: shop\.orders has k, v; web\.shop\.orders has k, v"):
        sales.sql("SELECT nix FROM shop.orders a, web.shop.orders b")
    with pytest.raises(NotFound, match=r"shop\.nix.*It is looked for in the catalog 'web'"):
        sales.sql("SELECT * FROM web.shop.nix")


@pytest.mark.parametrize(
    "statement",
    [
        "USE web",
        "USE web.shop",
        "SHOW TABLES IN web",
        "SHOW TABLES IN web.shop",
        "CREATE DATABASE web.more",
        "DROP DATABASE web.shop",
        "CALL sys.compact('web.shop.orders')",
    ],
)
def test_where_no_catalog_can_stand_the_error_says_what_to_do(sales: Catalog, statement: str) -> None:
    with pytest.raises((InvalidArgument, NotFound), match=r"'web' is another catalog.*connect to it.*--catalog web"):
        SqlSession(sales).execute(statement)


def test_a_table_of_another_catalog_by_its_full_name(sales: Catalog) -> None:
    with pytest.raises(InvalidArgument, match=r"'web' is another catalog, connect to it: catalog\.catalog\('web'\)"):
        sales.table("web.shop.orders")
    # Control: names of no catalog.
    with pytest.raises(NotFound, match="'nix'") as unknown:
        SqlSession(sales).execute("USE nix")
    assert "catalog" not in unknown.value.message


def test_an_unknown_catalog_is_refused_with_those_that_are_known(
    sales: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound, match=r"There is no catalog 'stock' in .*It has: sales, web"):
        sales.sql("SELECT * FROM stock.shop.orders")
    with pytest.raises(NotFound, match="There is no catalog 'stock'"):
        lakelog.connect(catalog="stock")
    monkeypatch.delenv("LAKELOG_CATALOGS")
    with pytest.raises(InvalidArgument, match="'stock' is not known: LAKELOG_CATALOGS names no file"):
        sales.sql("SELECT * FROM stock.shop.orders")
    bare = Catalog(sales.metastore, sales.context.stores)
    with pytest.raises(InvalidArgument, match=r"was not made by lakelog\.connect"):
        bare.catalog("sales")


def test_a_catalog_pickles_with_its_name(sales: Catalog) -> None:
    with pickle.loads(pickle.dumps(sales)) as copied:
        assert (copied.name, copied.catalog("web").name) == ("sales", "web")
        assert copied.catalog("web").tables("shop") == ["orders"]


def test_catalogs_are_closed_together(sales: Catalog) -> None:
    with lakelog.connect(catalog="sales") as other:
        web = other.catalog("web")
        web.close()
        assert other.tables("shop") == ["orders"], "the opener stays open"
        again = other.catalog("web")
        assert again is not web
        assert again.tables("shop") == ["orders"]
    with pytest.raises(LakelogError, match="closed"):
        again.tables("shop")


def test_the_command_takes_the_name(sales: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    sales.catalog("web").create_database("only_web")
    assert run(["--catalog", "web", "-o", "json", "database", "list"]) == 0
    # The servers of this test log to the same output.
    assert '"only_web"' in capsys.readouterr().out
    assert run(["database", "list", "--catalog", "sales", "-o", "json"]) == 0
    assert '"only_web"' not in capsys.readouterr().out
    assert run(["--catalog", "web", "status", "-o", "json"]) == 0
    assert '"target":"127.0.0.1:' in capsys.readouterr().out.replace(" ", "")
    assert run(["--catalog", "stock", "database", "list"]) == 3
    assert "It has: sales, web" in capsys.readouterr().err
    sales.catalog("web").drop_database("only_web")
