# %% [markdown]
# # From Parquet, Iceberg and Paimon
#
# lakelog does not read other table formats: you copy a table. The rows of all three lie in Parquet files, and which of
# these files count, and which of their rows, is said by metadata: nothing, JSON and Avro. This example reads that
# metadata with pyarrow and fastavro alone, copies a table of each format, and says what is *not* carried over.
#
# With the formats' own libraries it is one line: PyIceberg's `table.scan().to_arrow_batch_reader()`, or an export by
# the engine that you use. Take that where you can. What is here shows what such a line does, and why reading all
# Parquet files of a folder is wrong.
#
# The tables are made here, file by file, in the layout of the formats' specifications, with the fields that matter.

# %%
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lakelog.testing import check, open_sandbox, show

sandbox = open_sandbox("arrivals")
catalog = sandbox.catalog
PRICE = pa.decimal128(10, 2)


def write_avro(file: Path, fields: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """Writes records of these fields (types of Avro by name); returns the file's name."""
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        fastavro.writer(out, {"type": "record", "name": "entry", "fields": listed}, records)
    return file.name


def read_avro(file: Path) -> list[dict[str, Any]]:
    with file.open("rb") as source:
        return list(fastavro.reader(source))  # type: ignore[arg-type]


# %% [markdown]
# ## 1. A folder of Parquet files
#
# The common layout of Hive and Spark: the partition's value is in the path, and not in the files.

# %%
export = sandbox.folder / "export"
for day, rows in {
    "2026-11-01": [{"id": 1, "kind": "view"}, {"id": 2, "kind": "order"}],
    "2026-11-02": [{"id": 3, "kind": "view"}],
}.items():
    (export / f"day={day}").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), export / f"day={day}" / "part-0.parquet")
(export / "_SUCCESS").touch()

# %% [markdown]
# pyarrow's datasets know this layout. The partition becomes a column of the table, and `partition_by` names it. Here
# all files of the folder are the table: nothing says otherwise.

# %%
partitioning = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
files = ds.dataset(export, format="parquet", partitioning=partitioning)
events = catalog.create_table("arrivals.events", files.schema, partition_by=["day"])

# %% [markdown]
# Each file is one commit, and its number makes that safe to repeat: a program that dies in the middle is run again,
# and what is there already is not written twice. We do run it twice. (`lakelog insert arrivals.events export/ --job
# copy` does all of this on the command line, for files that have all columns.)


# %%
def copy_files() -> None:
    for number, fragment in enumerate(sorted(files.get_fragments(), key=lambda each: str(each.path))):
        events.append(fragment.to_table(schema=files.schema), writer="copy-of-export", identifier=number)


copy_files()
copy_files()
show(events, "The events")

check("all rows are there, once", events.count(), 3)
check("the partition came from the path", events.count("day = DATE '2026-11-02'"), 1)

# %% [markdown]
# ## 2. An Iceberg table
#
# First we make one, as three commits of another engine would leave it (format version 2):
#
# 1. `a.parquet` with tea, cup and pot. The column `item` was called `title` then.
# 2. `b.parquet` with jar and mug.
# 3. A copy-on-write update: `c.parquet` replaces `a.parquet`, with a new price of the tea. And a merge-on-read delete:
#    a position delete file says that row 1 of `b.parquet` is gone.
#
# `d.parquet` is there as well: its writer died before the commit, and no metadata names it.


# %%
def field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    """A column with its field id: Iceberg knows columns by id, not by name."""
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


def make_iceberg(table: Path) -> None:
    def data(name: str, title: str, rows: list[tuple[int, str, str]]) -> str:
        schema = pa.schema([field("id", pa.int64(), 1), field(title, pa.string(), 2), field("price", PRICE, 3)])
        columns = [[row[0] for row in rows], [row[1] for row in rows], [Decimal(row[2]) for row in rows]]
        pq.write_table(
            pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema), table / name
        )
        return str(table / name)

    (table / "data").mkdir(parents=True)
    old = data("data/a.parquet", "title", [(1, "tea", "3.50"), (2, "cup", "8.00"), (3, "pot", "12.50")])
    kept = data("data/b.parquet", "item", [(4, "jar", "1.00"), (5, "mug", "4.00")])
    new = data("data/c.parquet", "item", [(1, "tea", "4.00"), (2, "cup", "8.00"), (3, "pot", "12.50")])
    data("data/d.parquet", "item", [(6, "fork", "2.00")])
    deletes = table / "data" / "b-deletes.parquet"
    pq.write_table(pa.table({"file_path": [kept], "pos": pa.array([1], pa.int64())}), deletes)

    existing, added, deleted = 0, 1, 2
    content = {"name": "data_file", "type": "record", "fields": []}
    for name, kind in {
        "content": "int",
        "file_path": "string",
        "file_format": "string",
        "record_count": "long",
    }.items():
        content["fields"].append({"name": name, "type": kind})  # type: ignore[attr-defined]
    entry = {"status": "int", "snapshot_id": "long", "sequence_number": "long", "data_file": content}

    def manifest(name: str, *entries: tuple[int, int, int, str]) -> dict[str, Any]:
        """A manifest of entries (status, sequence number, content, path), and what the list says of it."""
        records = [
            {
                "status": status,
                "snapshot_id": sequence,
                "sequence_number": sequence,
                "data_file": {"content": kind, "file_path": path, "file_format": "PARQUET", "record_count": 1},
            }
            for status, sequence, kind, path in entries
        ]
        write_avro(table / "metadata" / name, entry, records)
        return {"manifest_path": str(table / "metadata" / name), "content": entries[0][2] and 1}

    listed = [
        manifest("m3.avro", (deleted, 1, 0, old), (existing, 2, 0, kept), (added, 3, 0, new)),
        manifest("m3-deletes.avro", (added, 3, 1, str(deletes))),
    ]
    write_avro(table / "metadata" / "snap-3.avro", {"manifest_path": "string", "content": "int"}, listed)
    columns = [(1, "id", "long"), (2, "item", "string"), (3, "price", "decimal(10, 2)")]
    described = {
        "format-version": 2,
        "current-schema-id": 1,
        "schemas": [{"schema-id": 1, "fields": [{"id": i, "name": name, "type": kind} for i, name, kind in columns]}],
        "current-snapshot-id": 3,
        "snapshots": [{"snapshot-id": 3, "manifest-list": str(table / "metadata" / "snap-3.avro")}],
    }
    (table / "metadata" / "v3.metadata.json").write_text(json.dumps(described))


warehouse = sandbox.folder / "iceberg" / "orders"
make_iceberg(warehouse)

# %% [markdown]
# What if one reads all files of `data/`? The tea has two prices, a mug that was deleted is there, a fork that was
# never committed, and old rows have no `item`.

# %%
found = [pq.read_table(file) for file in sorted((warehouse / "data").glob("?.parquet"))]
naive = pa.concat_tables(found, promote_options="default")
show(naive, "All Parquet files of the folder: wrong")

check("there are nine rows, where the table has four", naive.num_rows, 9)

# %% [markdown]
# So the metadata decides: metadata file -> manifest list -> manifests -> files that are not deleted, minus the rows
# that position deletes name. Columns are found by their field ids.


# %%
def read_iceberg(table: Path) -> pa.Table:
    """The rows of an Iceberg table's current snapshot, with its current columns.

    Raises:
        NotImplementedError: It has equality deletes, deletion vectors, or files that are not Parquet.
    """
    newest = max((table / "metadata").glob("v*.metadata.json"), key=lambda file: int(file.name[1:].partition(".")[0]))
    metadata = json.loads(newest.read_text())
    fields = next(s["fields"] for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    snapshot = next(s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])
    entries = [
        entry
        for manifest in read_avro(Path(snapshot["manifest-list"]))
        for entry in read_avro(Path(manifest["manifest_path"]))
        if entry["status"] != 2
    ]
    if any(e["data_file"]["content"] == 2 or e["data_file"]["file_format"] != "PARQUET" for e in entries):
        raise NotImplementedError("Copy this table with an Iceberg library: it has deletes or files of another kind.")
    gone: dict[str, set[int]] = {}
    for entry in entries:
        if entry["data_file"]["content"] == 1:
            for row in pq.read_table(entry["data_file"]["file_path"]).to_pylist():
                gone.setdefault(row["file_path"], set()).add(row["pos"])
    tables = []
    for entry in entries:
        if entry["data_file"]["content"] == 0:
            path = entry["data_file"]["file_path"]
            rows = pq.read_table(path)
            by_id = {int(f.metadata[b"PARQUET:field_id"]): rows[n] for n, f in enumerate(rows.schema)}
            rows = pa.table({f["name"]: by_id.get(f["id"], pa.nulls(rows.num_rows)) for f in fields})
            tables.append(rows.take([n for n in range(rows.num_rows) if n not in gone.get(path, set())]))
    return pa.concat_tables(tables, promote_options="permissive")


# %% [markdown]
# Iceberg has no primary key that is enforced; its identifier fields are the nearest. We know that `id` is one. `writer`
# and `identifier` (here the Iceberg snapshot) make the copy safe to repeat.

# %%
rows = read_iceberg(warehouse)
key = pa.field("id", pa.int64(), nullable=False)
orders = catalog.create_table("arrivals.orders", pa.schema([key, *list(rows.schema)[1:]]), primary_key=["id"])
orders.upsert(rows, writer="copy-of-orders", identifier=3)
show(orders, "The orders, as Iceberg's snapshot 3 has them")

prices = {row["item"]: str(row["price"]) for row in orders.scan().to_arrow().to_pylist()}
check("it has the rows of the snapshot", prices, {"tea": "4.00", "cup": "8.00", "pot": "12.50", "jar": "1.00"})

# %% [markdown]
# ## 3. A Paimon table with a primary key
#
# Paimon's files hold *records*, several of a key: each with `_SEQUENCE_NUMBER` and `_VALUE_KIND` (0 `+I`, 1 `-U`,
# 2 `+U`, 3 `-D`). A read merges them. We make one with a compaction after it:
#
# 1. `data-1` and `data-2` at level 0; a compaction put them together as `data-3` at level 5. The old files are still
#    there, for older snapshots.
# 2. `data-4` at level 0: a new stock of the cup, and the pot is deleted.


# %%
def make_paimon(table: Path) -> None:
    def data(name: str, records: list[tuple[int, str, int, int, int]]) -> None:
        schema = pa.schema([("id", pa.int64()), ("item", pa.string()), ("stock", pa.int32())])
        written = pa.table([pa.array([r[n] for r in records], f.type) for n, f in enumerate(schema)], schema)
        written = written.append_column("_SEQUENCE_NUMBER", pa.array([r[3] for r in records], pa.int64()))
        written = written.append_column("_VALUE_KIND", pa.array([r[4] for r in records], pa.int8()))
        written = written.append_column("_KEY_id", written["id"])
        order = ["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "item", "stock"]
        pq.write_table(written.select(order), table / "bucket-0" / f"{name}.parquet")

    (table / "bucket-0").mkdir(parents=True)
    data("data-1", [(1, "tea", 10, 0, 0), (2, "cup", 20, 1, 0)])
    data("data-2", [(1, "tea", 9, 2, 0), (3, "pot", 30, 3, 0)])
    data("data-3", [(1, "tea", 9, 2, 0), (2, "cup", 20, 1, 0), (3, "pot", 30, 3, 0)])
    data("data-4", [(2, "cup", 18, 4, 2), (3, "pot", 30, 5, 3)])

    add, delete = 0, 1
    inner = [{"name": name, "type": kind} for name, kind in {"_FILE_NAME": "string", "_LEVEL": "int"}.items()]
    entry = {"_KIND": "int", "_BUCKET": "int", "_FILE": {"name": "file", "type": "record", "fields": inner}}

    def manifest(name: str, *entries: tuple[int, str, int]) -> dict[str, str]:
        records = [
            {"_KIND": kind, "_BUCKET": 0, "_FILE": {"_FILE_NAME": f"{file}.parquet", "_LEVEL": level}}
            for kind, file, level in entries
        ]
        return {"_FILE_NAME": write_avro(table / "manifest" / name, entry, records)}

    lists = {"_FILE_NAME": "string"}
    base = [
        manifest("manifest-1", (add, "data-1", 0), (add, "data-2", 0)),
        manifest("manifest-2", (delete, "data-1", 0), (delete, "data-2", 0), (add, "data-3", 5)),
    ]
    snapshot = {
        "version": 3,
        "id": 4,
        "schemaId": 0,
        "baseManifestList": write_avro(table / "manifest" / "manifest-list-base", lists, base),
        "deltaManifestList": write_avro(
            table / "manifest" / "manifest-list-delta", lists, [manifest("manifest-3", (add, "data-4", 0))]
        ),
        "commitKind": "APPEND",
    }
    columns = [("id", "BIGINT NOT NULL"), ("item", "STRING"), ("stock", "INT")]
    schema = {
        "id": 0,
        "fields": [{"id": n, "name": name, "type": kind} for n, (name, kind) in enumerate(columns)],
        "partitionKeys": [],
        "primaryKeys": ["id"],
        "options": {"bucket": "1", "changelog-producer": "lookup"},
    }
    for folder, name, text in (("snapshot", "snapshot-4", snapshot), ("schema", "schema-0", schema)):
        (table / folder).mkdir()
        (table / folder / name).write_text(json.dumps(text))
    (table / "snapshot" / "LATEST").write_text("4")


store = sandbox.folder / "paimon" / "stock"
make_paimon(store)

# %% [markdown]
# Again the metadata decides which files count. Then the records of a key are ordered by their sequence number, and
# lakelog merges them: `write` takes row kinds, and of several rows of a key the last one stays.


# %%
def read_paimon(table: Path) -> tuple[dict[str, Any], pa.Table]:
    """The schema of a Paimon table, and the records of its newest snapshot in their order, with `_row_kind`.

    Raises:
        NotImplementedError: Its rows are not simply the last record of each key, or it has partitions.
    """
    number = (table / "snapshot" / "LATEST").read_text()
    snapshot = json.loads((table / "snapshot" / f"snapshot-{number}").read_text())
    schema = json.loads((table / "schema" / f"schema-{snapshot['schemaId']}").read_text())
    options = schema["options"]
    if options.get("merge-engine", "deduplicate") != "deduplicate" or schema["partitionKeys"]:
        raise NotImplementedError("Export this table with an engine that knows Paimon.")
    if options.get("deletion-vectors.enabled") == "true" or options.get("sequence.field"):
        raise NotImplementedError("Export this table with an engine that knows Paimon.")
    files: dict[tuple[int, str], None] = {}
    for listed in ("baseManifestList", "deltaManifestList"):
        for manifest in read_avro(table / "manifest" / snapshot[listed]):
            for entry in read_avro(table / "manifest" / manifest["_FILE_NAME"]):
                file = entry["_BUCKET"], entry["_FILE"]["_FILE_NAME"]
                if entry["_KIND"] == 0:
                    files[file] = None
                else:
                    files.pop(file)
    records = pa.concat_tables([pq.read_table(table / f"bucket-{bucket}" / name) for bucket, name in files])
    records = records.sort_by("_SEQUENCE_NUMBER")
    kinds = pa.array(["+I", "-U", "+U", "-D"]).take(records["_VALUE_KIND"].combine_chunks())
    return schema, records.select([f["name"] for f in schema["fields"]]).append_column("_row_kind", kinds)


# %% [markdown]
# The options `bucket`, `changelog-producer` and many more mean the same in lakelog, so they are handed over. One that
# lakelog does not have would be refused by name.

# %%
described, records = read_paimon(store)
show(records, "The records of the newest snapshot, in their order")
columns = [f"{each['name']} {each['type']}" for each in described["fields"]]
columns.append(f"PRIMARY KEY ({', '.join(described['primaryKeys'])}) NOT ENFORCED")
options = [f"'{name}' = '{value}'" for name, value in described["options"].items()]
catalog.sql(f"CREATE TABLE arrivals.stock ({', '.join(columns)}) WITH ({', '.join(options)})")
stock = catalog.table("arrivals.stock")
stock.write(records, writer="copy-of-stock", identifier=4)
show(stock, "The stock, as Paimon's snapshot 4 has it")

by_item = {row["item"]: row["stock"] for row in stock.scan().to_arrow().to_pylist()}
check("it has what a merge of the records gives", by_item, {"tea": 9, "cup": 18})
check("the option came along", stock.options["changelog-producer"], "lookup")

# %% [markdown]
# ## What is carried over, and what is not
#
# | | Parquet | Iceberg | Paimon |
# |---|---|---|---|
# | the rows of one snapshot | yes | yes | yes, for the merge engine `deduplicate` |
# | renamed columns | no: by name | yes, by field id | no: by name |
# | primary key | say it | say it (identifier fields) | yes |
# | partitions | yes, from paths | as columns, without transforms | refused here: export it |
# | options | there are none | no | those of the same name |
# | deleted rows | there are none | yes, but equality deletes are refused | yes, but deletion vectors are refused |
# | older snapshots, tags, branches | there are none | no | no |
# | changelogs, consumers | there are none | there are none | no: followers begin with the copy |
# | writers that go on meanwhile | stop them | note the snapshot, then copy what came after it | the same |
#
# Columns, field ids, statistics and bloom filters are made anew: the copy writes files of its own, and the source can
# be deleted. `docs/from-paimon.md` and `docs/from-iceberg-and-delta.md` have tables of options and concepts.

# %%
sandbox.close()
print("Done.")
