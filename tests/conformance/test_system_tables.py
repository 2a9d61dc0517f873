"""Rule 7.7: the system tables, read through the SDK and SQL: the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from lakelog.errors import LakelogError
from lakelog.sdk.catalog import Catalog
from lakelog.system_tables.registry import OF_CATALOGS, OF_TABLES
from tests.conformance.cases_system_tables import CASES, Case, make_tables, sort_rows

Read = Callable[[str, Sequence[str], str | None, int | None], pa.Table]


@pytest.fixture(scope="module")
def names(catalog: Catalog) -> dict[str, str]:
    """The tables of the cases, made once."""
    return make_tables(catalog)


@pytest.fixture(params=["sdk", "sql"])
def read(request: pytest.FixtureRequest, catalog: Catalog) -> Read:
    """A way to read a system table: its name, columns, condition and snapshot."""

    def by_sdk(name: str, columns: Sequence[str], condition: str | None, at: int | None) -> pa.Table:
        return catalog.system_table(name).scan(columns, condition, snapshot_id=at).to_arrow()

    def by_sql(name: str, columns: Sequence[str], condition: str | None, at: int | None) -> pa.Table:
        state = "" if at is None else f" VERSION AS OF {at}"
        where = "" if condition is None else f" WHERE {condition}"
        return catalog.sql(f"SELECT {', '.join(columns)} FROM {name}{state}{where}").to_arrow()

    return by_sdk if request.param == "sdk" else by_sql


@pytest.mark.parametrize("case", CASES, ids=[f"{case.table}-{case.kind}-{n}" for n, case in enumerate(CASES)])
def test_system_table(case: Case, read: Read, names: dict[str, str]) -> None:
    found = read(f"{names[case.table]}${case.kind}", case.columns, case.filter, case.at)
    assert found.schema.names == list(case.columns)
    assert sort_rows(found.to_pylist()) == sorted(case.rows, key=repr)


def test_catalog_wide(read: Read, names: dict[str, str]) -> None:
    database, _, table = names["keyed"].partition(".")
    found = read("sys.tables", ("name", "primary_key", "snapshot_id", "rows"), f"database = '{database}'", None)
    assert {"name": table, "primary_key": ["dt", "k"], "snapshot_id": 5, "rows": 5} in found.to_pylist()
    assert read("sys.consumers", ("id",), f"`table` = '{table}'", None).num_rows == 0
    assert read("sys.databases", ("name", "tables"), f"name = '{database}'", None).num_rows == 1
    assert read("sys.logs", ("topic",), None, None).num_rows == 0
    assert read("sys.pipelines", ("name",), None, None).num_rows == 0
    jobs = read("sys.jobs", ("kind", "bucket", "partition"), f"`table` = '{table}' AND kind = 'compact'", None)
    assert {"kind": "compact", "bucket": 0, "partition": "dt=a"} in jobs.to_pylist()
    runs = read("sys.job_runs", ("result", "kind"), f"`table` = '{table}'", None)
    assert {each["result"] for each in runs.to_pylist()} <= {"done"}
    kinds = read("sys.services", ("kind", "liveness"), None, None).to_pylist()
    assert {"kind": "metastore", "liveness": "present"} in kinds


@pytest.mark.parametrize("kind", OF_TABLES)
def test_all_columns(kind: str, catalog: Catalog, names: dict[str, str]) -> None:
    name = f"{names['keyed']}${kind}"
    table = catalog.system_table(name)
    declared = table.schema.names
    found = catalog.sql(f"SELECT * FROM {name}").to_arrow()
    assert found.schema.names == declared
    assert catalog.sql(f"DESCRIBE {name}").to_arrow().column("column").to_pylist() == declared
    rows = table.to_arrow()
    assert rows.schema == table.schema
    assert sort_rows(found.to_pylist()) == sort_rows(rows.to_pylist())
    assert table.count() == rows.num_rows == table.scan([]).count()


def test_every_table_has_a_case() -> None:
    assert {case.kind for case in CASES} | {"jobs", "job_runs"} == set(OF_TABLES)
    of_catalogs = {"databases", "tables", "jobs", "job_runs", "consumers", "logs", "services", "pipelines"}
    assert set(OF_CATALOGS) == of_catalogs


REFUSED = (
    ("fils", "path", None, None, r"There is no system table '.*fils'. Nearest are \$files"),
    ("snapshots", "id", None, 1, "shows only the present state"),
    ("files", "path", None, 99, "has no snapshot 99"),
    ("files", "path", "nothing = 1", None, "(?i)nothing"),
    ("files", "pth", None, None, "(?s)pth.*path"),
)


@pytest.mark.parametrize(("kind", "column", "condition", "at", "message"), REFUSED)
def test_refused(
    kind: str,
    column: str,
    condition: str | None,
    at: int | None,
    message: str,
    read: Read,
    names: dict[str, str],
) -> None:
    with pytest.raises(LakelogError, match=message):
        read(f"{names['keyed']}${kind}", (column,), condition, at)


def test_unknown_tables(read: Read) -> None:
    with pytest.raises(LakelogError, match=r"There is no system table 'sys.tabls'. Nearest are sys.tables"):
        read("sys.tabls", ("name",), None, None)
    with pytest.raises(LakelogError, match=r"conformance\.nothing"):
        read("conformance.nothing$files", ("path",), None, None)


def test_writes_are_refused(catalog: Catalog, names: dict[str, str]) -> None:
    name = f"{names['keyed']}$files"
    database, _, table = name.partition(".")
    calls: list[Callable[[], object]] = [
        lambda: catalog.table(name),
        lambda: catalog.table("sys.tables"),
        lambda: catalog.drop_table(name),
        lambda: catalog.create_table(name, pa.schema([("a", pa.int32())])),
        lambda: catalog.sql(f"INSERT INTO {name} VALUES (1)"),
        lambda: catalog.sql(f"INSERT INTO `{database}`.`{table}` VALUES (1)"),
        lambda: catalog.sql(f"ALTER TABLE {name} SET ('bucket' = '1')"),
        lambda: catalog.sql("INSERT INTO sys.tables VALUES (1)"),
    ]
    for call in calls:
        with pytest.raises(LakelogError, match="system table") as caught:
            call()
        assert caught.value.reason == "SYSTEM_TABLE"
