# %% [markdown]
# # Quick start
#
# A table with a primary key, from nothing: rows are written, changed and deleted, read as they are and as they were,
# and followed as a stream. Every commit is a *snapshot*: a numbered state of the table that stays readable.
#
# `open_sandbox` starts a lakelog in a temporary folder and makes an empty database in it. With
# `--target HOST:PORT` (in a notebook: `target="HOST:PORT"`) it uses one that runs already.

# %%
import pyarrow as pa

from lakelog.testing import check, open_sandbox, show

sandbox = open_sandbox("quickstart")
catalog = sandbox.catalog  # what `lakelog.connect("HOST:PORT")` returns

# %% [markdown]
# ## A table
#
# The schema is an Arrow schema. Rows of one key always lie in the same *bucket*; two buckets can be written and read
# side by side.

# %%
schema = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("item", pa.string()),
        ("price", pa.decimal128(10, 2)),
    ]
)
orders = catalog.create_table("quickstart.orders", schema, primary_key=["id"], options={"bucket": 2})

# %% [markdown]
# ## Write
#
# Rows can be dicts, or anything that speaks Arrow: pyarrow, pandas, polars, DuckDB. An upsert adds a row, or replaces
# the one of the same key. Each call is one commit: all of its rows become visible at once, or none.

# %%
first = orders.upsert([{"id": 1, "item": "tea", "price": 3.50}, {"id": 2, "item": "cup", "price": 8.00}])
second = orders.upsert([{"id": 1, "item": "tea", "price": 4.00}, {"id": 3, "item": "pot", "price": 12.50}])
third = orders.delete([{"id": 2}])
show(orders, "The orders after three commits")

check("each commit made a snapshot", [first.snapshot_id, second.snapshot_id, third.snapshot_id], [1, 2, 3])
check("the upsert replaced the tea's price", orders.count("item = 'tea' AND price = 4"), 1)
check("the cup is gone", orders.count("id = 2"), 0)

# %% [markdown]
# ## Read
#
# A filter is an SQL condition, and leaves out files that cannot match. SQL works as well, joins and aggregates
# included; DuckDB computes them over lakelog's scans.

# %%
show(orders.scan(["item", "price"], filter="price > :least", params={"least": 5}), "Dear items")
total = catalog.sql("SELECT count(*) AS orders, sum(price) AS total FROM quickstart.orders")
show(total, "The same in SQL")

check("SQL sums what is there", total.to_arrow().to_pylist()[0]["total"], sum(orders.to_pandas()["price"]))

# %% [markdown]
# ## As it was
#
# A snapshot is read by its number, by a time, or by a tag that you give it.

# %%
show(orders.scan(snapshot_id=1), "The orders at snapshot 1")
show(orders.snapshots().select(["id", "kind", "added_rows", "committed_at"]), "All snapshots")

check("the cup is still in snapshot 1", orders.scan(snapshot_id=1, filter="item = 'cup'").count(), 1)

# %% [markdown]
# ## What changed
#
# Every table is a stream, without a setting for it. A change comes with the row that was there before: `+I` a new
# row, `-U` and `+U` the old and the new one, `-D` a row that is gone.

# %%
show(orders.changes(after=1), "The changes after snapshot 1")

# %% [markdown]
# A subscription has the same changes as they are committed. With a `consumer_id` lakelog keeps its position, so a
# program that stops goes on where it was.

# %%
with orders.subscribe("from-snapshot", consumer_id="reporter", options={"scan.snapshot-id": 1}) as stream:
    seen = [batch.snapshot_id for batch in stream.snapshots(timeout=1)]
orders.upsert([{"id": 4, "item": "jar", "price": 1.00}])
with orders.subscribe(consumer_id="reporter") as stream:
    batch = stream.read(timeout=10)
    assert batch is not None
    show(batch.data, "What the reporter gets when it comes back")

check("the reporter saw three snapshots", seen, [1, 2, 3])
check("it went on with the fourth", batch.snapshot_id, 4)

# %% [markdown]
# ## Plain files
#
# The data are Parquet files. Any reader opens them, and sees the columns and row kinds. Which files and rows count at
# a snapshot, only the metastore knows: so read *through* lakelog, and look at files to understand.

# %%
files = orders.files()
show(files.select(["path", "bucket", "level", "rows", "added_snapshot"]), "The files of the newest snapshot")
stored = sum(files["rows"].to_pylist())

check("deleted and replaced rows are still in files until a compaction", stored > orders.count())

# %%
sandbox.close()
print("Done.")
