# %% [markdown]
# # The four changelog producers, side by side
#
# A table with a primary key can keep a *changelog*: files beside its data that say what each snapshot changed. The
# option `changelog-producer` says who makes it. Here four tables get the same two commits, and we compare what a
# follower of each one sees, and what each one costs.
#
# | producer | who makes the changelog |
# |---|---|
# | `none` | no one: each reader looks up the rows that were there before |
# | `input` | the writer stores every record as it came |
# | `lookup` | the writer looks up the old rows, before it commits |
# | `full-compaction` | a compactor, with each full compaction of a bucket |

# %%
import pyarrow as pa

from lakelog.testing import check, open_sandbox, show

sandbox = open_sandbox("producers", services=["compactor"])
catalog = sandbox.catalog

# %% [markdown]
# ## Four tables
#
# Compactors also work by themselves. With `write-only` they leave the last table alone until we ask, so that this
# example always shows the same.

# %%
PRODUCERS = ["none", "input", "lookup", "full-compaction"]
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("stock", pa.int64())])

tables = {}
for producer in PRODUCERS:
    options = {"changelog-producer": producer}
    if producer == "full-compaction":
        options["write-only"] = "true"
    name = f"producers.stock_{producer.replace('-', '_')}"
    tables[producer] = catalog.create_table(name, SCHEMA, primary_key=["id"], options=options)

# %% [markdown]
# ## The same two commits for each
#
# The first commit brings two articles. The second one says four things in one go: article 10 has 101, article 30 is
# new, article 10 has 102 after all, and article 40 is gone. Its writer does not know what 40 had, and says 0.
#
# `write` takes the kind of each row from the column `_row_kind`.

# %%
first = [{"id": 10, "stock": 100}, {"id": 40, "stock": 400}]
second = [
    {"id": 10, "stock": 101, "_row_kind": "+I"},
    {"id": 30, "stock": 300, "_row_kind": "+I"},
    {"id": 10, "stock": 102, "_row_kind": "+I"},
    {"id": 40, "stock": 0, "_row_kind": "-D"},
]
for table in tables.values():
    table.upsert(first)
tables["full-compaction"].compact(full=True)  # asked for, and waited for
last_before = {producer: table.snapshots()["id"][-1].as_py() for producer, table in tables.items()}
for table in tables.values():
    table.write(second)

# %% [markdown]
# ## They hold the same rows
#
# The changelog is about *changes*. What a read of the table shows does not depend on it.

# %%
for producer, table in tables.items():
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    check(f"{producer}: 10 has 102, 30 has 300", rows, [{"id": 10, "stock": 102}, {"id": 30, "stock": 300}])

# %% [markdown]
# ## They show different changes
#
# With `full-compaction` a follower sees nothing of the second commit yet, although a read does. It sees it with the
# next full compaction. `changes` would wait for that, so we ask for the compaction first.


# %%
def changes_of(producer: str) -> list[str]:
    """What a follower of a table sees of the second commit, in its order."""
    found = tables[producer].changes(after=last_before[producer]).to_arrow().to_pylist()
    return [f"{row['_row_kind']} {row['id']}: {row['stock']}" for row in found]


with tables["full-compaction"].subscribe("latest") as follower:
    early = follower.read(timeout=1)
    tables["full-compaction"].compact(full=True)
    late = follower.read(timeout=20)
seen = {producer: changes_of(producer) for producer in PRODUCERS}
longest = max(map(len, seen.values()))
columns = {producer: found + [""] * (longest - len(found)) for producer, found in seen.items()}
show(pa.table(columns), "The second commit, as each table's follower sees it")

check("before the full compaction its follower saw nothing", early is None)
check("and after it the changes", late is not None and late.data.num_rows > 0)

# %% [markdown]
# Read the columns from left to right:
#
# - `none` and `lookup` show the *net* change of each key, and the row that was there before: a program that sums the
#   stock subtracts `-U` and `-D`, adds `+U` and `+I`, and needs no memory of single rows. With `none` each reader does
#   the lookups; with `lookup` the writer did them once, for all readers.
# - `input` shows what the writer said, 101 included, which no read ever showed, and a deletion with the 0 that the
#   writer gave. A sum over it would be wrong. It is right if the records are a complete changelog of another system.
# - `full-compaction` shows net changes too. If several commits come between two compactions, they become one change.

# %%
net = ["+I 30: 300", "+U 10: 102", "-D 40: 400", "-U 10: 100"]
check("none shows net changes with old rows", sorted(seen["none"]), net)
check("lookup shows the same", sorted(seen["lookup"]), net)
check("full-compaction shows the same, later", sorted(seen["full-compaction"]), net)
check("input shows the four records as they came", len(seen["input"]), 4)
check("among them the 101 that was never in the table", "+I 10: 101" in seen["input"])
check("and the deletion with the writer's 0", "-D 40: 0" in seen["input"])

# %% [markdown]
# ## A sum from changes alone
#
# This is what old rows are for.

# %%
SIGNS = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}


def sum_of(producer: str) -> int:
    """The stock of all articles, from the changes alone: 500 at the first commit, and what came then."""
    found = tables[producer].changes(after=last_before[producer]).to_arrow().to_pylist()
    return 500 + sum(SIGNS[row["_row_kind"]] * row["stock"] for row in found)


sums = [{"producer": producer, "sum": sum_of(producer), "right": sum_of(producer) == 402} for producer in PRODUCERS]
show(sums, "The sum of all stock, from changes alone (402 is right)")

check(
    "only `input` does not add up",
    [each["producer"] for each in sums if not each["right"]],
    ["input"],
)

# %% [markdown]
# ## What each costs
#
# `$snapshots` says whether a snapshot has changelog files: `attached` (the commit or a compactor made them), `none`,
# or `later`. Files on disk include those of changelogs and of compactions.

# %%
costs = []
for producer, table in tables.items():
    commits = table.system_table("snapshots").scan(["kind", "changelog"], filter="kind = 'APPEND'").to_arrow()
    found = table.check_files()
    costs.append(
        {
            "producer": producer,
            "changelog of commits": ", ".join(commits["changelog"].to_pylist()),
            "snapshots": table.snapshots().num_rows,
            "files on disk": found.files,
            "bytes on disk": found.size_bytes,
        }
    )
show(costs, "What the two commits left")

by_producer = {each["producer"]: each for each in costs}
check("`none` has the fewest files", min(costs, key=lambda each: each["files on disk"])["producer"], "none")
check(
    "`lookup` stores a changelog with each commit", by_producer["lookup"]["changelog of commits"], "attached, attached"
)

# %% [markdown]
# **Which one?** `lookup` if several readers follow the table or must be quick; `input` if the records are a complete
# changelog already; `full-compaction` if readers can wait and many commits should become few changes; else `none`.

# %%
sandbox.close()
print("Done.")
