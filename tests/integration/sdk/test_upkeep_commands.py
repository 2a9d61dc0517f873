"""`lakelog table restore`, `list --dropped` and `check`, over a metastore in this process."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.cli.app import run
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.printer import Printer
from lakelog.errors import InvalidArgument, NotFound
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table


@pytest.fixture
def orders(catalog: Catalog) -> Table:
    table = catalog.create_table("shop.orders", pa.schema([("id", pa.int64())]), primary_key=["id"])
    table.upsert(pa.table({"id": [1]}))
    return table


def call(catalog: Catalog, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    invocation = Invocation(
        open_catalog=lambda _: catalog, make_printer=lambda output: Printer(output, out, err, width=160)
    )
    # The metastore is the fixture's to close.
    invocation.close = lambda: None  # type: ignore[method-assign]
    code = run(["table", *arguments], invocation)
    captured = capsys.readouterr()
    return code, captured.out + out.getvalue(), captured.err + err.getvalue()


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_a_dropped_table_is_listed_and_restored(
    catalog: Catalog, orders: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "No dropped table of database shop can be restored." in call(catalog, capsys, "list", "shop", "--dropped")[1]
    code, out, _ = call(catalog, capsys, "drop", "shop.orders", "-y")
    assert (code, "lakelog table list shop --dropped shows until when it can be restored" in out) == (0, True)
    code, out, _ = call(catalog, capsys, "list", "shop", "--dropped")
    assert (code, orders.uuid in out, "yes" in out) == (0, True, True)
    ((listed,),) = [json.loads(call(catalog, capsys, "list", "--dropped", "-o", "json")[1])]
    assert (listed["name"], listed["uuid"], listed["restorable"]) == ("shop.orders", orders.uuid, True)
    catalog.create_table("shop.orders", orders.schema)
    code, _, err = call(catalog, capsys, "restore", "shop.orders")
    assert (code, "lakelog table restore shop.orders --as shop.orders_restored" in err) == (4, True)
    catalog.drop_table("shop.orders")
    code, out, err = call(catalog, capsys, "restore", "shop.orders", "--as", "shop.again")
    assert (code, "Restored table shop.orders as shop.again" in out) == (0, True)
    assert "1 other table of this name can be restored: choose by --uuid" in err
    code, out, _ = call(catalog, capsys, "restore", "shop.orders", "--uuid", orders.uuid, "-o", "json")
    assert code == 0
    assert {**json.loads(out), "dropped_at": ""} == {
        "table": "shop.orders",
        "uuid": orders.uuid,
        "dropped_at": "",
        "snapshot_id": 1,
        "others": 0,
    }
    assert orders.scan().to_arrow().num_rows == 1
    code, _, err = call(catalog, capsys, "restore", "shop.orders")
    assert (code, "There is no dropped table 'shop.orders'" in err) == (3, True)


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_restoring_from_python(catalog: Catalog, orders: Table) -> None:
    catalog.drop_table("shop.orders")
    with pytest.raises(NotFound, match=rf"catalog\.restore_table\('shop\.orders', uuid='{orders.uuid}'\)"):
        orders.scan()
    dropped = catalog.dropped_tables("shop").to_pylist()
    assert [(each["name"], each["uuid"], each["restorable"]) for each in dropped] == [
        ("shop.orders", orders.uuid, True)
    ]
    assert (dropped[0]["kept_until"] - dropped[0]["dropped_at"]).days == 1
    assert catalog.dropped_tables("nothing").num_rows == 0
    restored = catalog.restore_table("shop.orders", as_name="shop.orders2")
    assert (restored.name, restored.uuid) == ("shop.orders2", orders.uuid)
    assert orders.scan().to_arrow().num_rows == 1
    for wrong in ({"name": "orders"}, {"name": "shop.orders", "uuid": 7}, {"name": "shop.orders", "as_name": "x"}):
        with pytest.raises(InvalidArgument):
            catalog.restore_table(**wrong)


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_files_are_checked_and_repaired(
    catalog: Catalog, orders: Table, warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attempt = catalog.metastore.stage_attempt([orders.uuid], "dead").attempt_id
    left = warehouse / orders.uuid / "data" / attempt / "a.parquet"
    left.parent.mkdir()
    left.write_bytes(b"left")
    code, out, err = call(catalog, capsys, "check", "shop.orders", "--older-than", "0 ms")
    assert (code, attempt in out, "open attempt" in out) == (0, True, True)
    assert "lakelog table check shop.orders --repair deletes 1 file." in err
    code, _, err = call(catalog, capsys, "check", "shop.orders", "--repair")
    assert (code, "add --yes if you are sure" in err) == (2, True)
    code, out, _ = call(catalog, capsys, "check", "shop.orders", "--repair", "-y", "--older-than", "0 s", "-o", "json")
    found = json.loads(out)
    assert (code, found["deleted_files"], found["deleted_bytes"], found["broken"]) == (0, 1, 4, [])
    (orphans,) = found["orphans"]
    assert (orphans["attempt"], orphans["reason"], orphans["deletable"]) == (attempt, "open attempt", 1)
    assert not left.exists()
    code, _, err = call(catalog, capsys, "check", "shop.orders", "--older-than", "soon")
    assert (code, "'soon' is no span of time" in err) == (2, True)
    code, _, err = call(catalog, capsys, "check", "shop.orders", "--repair", "-y", "--older-than", "3600")
    assert (code, "'3600' is no span of time" in err, "'3600 s'" in err, "'3600 ms'" in err) == (2, True, True, True)
    (file,) = (warehouse / orders.uuid).rglob("*.parquet")
    file.unlink()
    code, out, err = call(catalog, capsys, "check", "shop.orders")
    assert (code, "missing" in out) == (1, True)
    assert "1 file of shop.orders missing or of another size than committed" in err
    code, out, err = call(catalog, capsys, "check", "shop.orders", "-o", "json")
    assert (code, json.loads(out)["broken_files"], json.loads(err)["reason"]) == (1, 1, "FILES_BROKEN")
    catalog.drop_table("shop.orders")
    code, _, err = call(catalog, capsys, "check", "shop.orders")
    assert (code, "was dropped at" in err, "lakelog table restore shop.orders" in err) == (3, True, True)
