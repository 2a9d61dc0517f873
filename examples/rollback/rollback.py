# %% [markdown]
# # Time travel, and the rollback of a bad deploy
#
# A pricing service writes prices. Its version 2.0 has a bug: it takes cents for euros. We see what it did, look at the
# table as it was before, bring that back, and keep the good work that another program did meanwhile.
#
# Nothing is lost on the way: a rollback is one more commit, so the bad state stays readable, and the rollback itself
# can be undone.

# %%
from decimal import Decimal

import pyarrow as pa

from lakelog.testing import check, open_sandbox, show

sandbox = open_sandbox("pricing")
catalog = sandbox.catalog
key = pa.field("item", pa.string(), nullable=False)
schema = pa.schema([key, ("price", pa.decimal128(10, 2)), ("shelf", pa.string())])
prices = catalog.create_table("pricing.prices", schema, primary_key=["item"])

# %% [markdown]
# ## Before the deploy
#
# A writer can name itself and number its commits: then a commit that is repeated, after a lost answer or a crash, is
# applied once. It may also note anything as `properties`: here the version that was running.

# %%
opening = [
    {"item": "cup", "price": Decimal("8.00"), "shelf": "A1"},
    {"item": "jar", "price": Decimal("1.00"), "shelf": "A2"},
    {"item": "pot", "price": Decimal("12.50"), "shelf": "B1"},
    {"item": "tea", "price": Decimal("3.50"), "shelf": "B2"},
]
prices.upsert(opening, writer="pricing", identifier=1, properties={"version": "1.9"})

# %% [markdown]
# A *tag* is a name for a snapshot, which retention then keeps for as long as the tag is there. Make one before each
# deploy: snapshots without a tag expire after an hour, unless `snapshot.time-retained` says otherwise.

# %%
tagged = prices.tags.create("before-2.0")
show(prices, f"The prices at snapshot {tagged}, which is now also called before-2.0")

# %% [markdown]
# ## The deploy, and an hour of it
#
# Version 2.0 writes prices in cents. Meanwhile the warehouse, a good program, moves the pot to another shelf.

# %%
NEW = {"version": "2.0"}

prices.update({"price": "price * 100"}, where="item IN ('cup', 'tea')", writer="pricing", identifier=2, properties=NEW)
prices.update({"shelf": "'C9'"}, where="item = 'pot'", writer="warehouse", identifier=1)
prices.update({"price": "price * 100"}, where="item = 'jar'", writer="pricing", identifier=3, properties=NEW)
show(prices, "The prices now")
broken_at = prices.snapshots()["committed_at"][-1].as_py()

check("a cup costs 800", prices.count("item = 'cup' AND price = 800"), 1)

# %% [markdown]
# ## Who did that?
#
# The snapshots say who wrote them, and `changes` what they changed, with the rows before.

# %%
show(
    catalog.sql(
        """
        SELECT s.id AS snapshot, s.writer, s.properties['version'] AS version,
               c._row_kind AS kind, c.item, c.price, c.shelf
        FROM pricing.prices$changelog c JOIN pricing.prices$snapshots s ON s.id = c._snapshot_id
        WHERE s.id > 1 ORDER BY s.id, c.item, c._row_kind
        """
    ),
    "What was written since the tag, and by whom",
)
suspects = catalog.sql("SELECT id FROM pricing.prices$snapshots WHERE properties['version'] = '2.0' ORDER BY id")
bad_snapshots = suspects.to_arrow()["id"].to_pylist()

check("version 2.0 wrote two snapshots", bad_snapshots, [2, 4])

# %% [markdown]
# ## The table as it was
#
# By tag, by number, or by time. Compare before you change anything.

# %%
before = prices.scan(tag="before-2.0").to_arrow()
show(prices.scan(["item", "price"], tag="before-2.0"), "The prices before the deploy")

check("the tag is a name of snapshot 1", prices.scan(snapshot_id=1).to_arrow().equals(before))
check("a read by time finds the bad state", prices.scan(timestamp=broken_at, filter="price = 800").count(), 1)

# %% [markdown]
# ## Bring it back
#
# A follower is listening. Rollbacks are overwrites, which streams leave out unless they ask for them by
# `streaming-read-overwrite`; then they see the changes that undo the bad ones.

# %%
follower = prices.subscribe("latest", options={"streaming-read-overwrite": "true"})
why = {"reason": "pricing 2.0 writes cents"}
rollback = prices.rollback_to("before-2.0", writer="on-call", identifier=1, properties=why)
undone = follower.read(timeout=20)
follower.close()
assert undone is not None
show(prices, f"After the rollback, which is snapshot {rollback.snapshot_id}")
show(undone.data, "What the follower got")

check("every row is as it was", prices.scan().to_arrow().sort_by("item").equals(before.sort_by("item")))
check("the bad state can still be read", prices.scan(snapshot_id=4, filter="price = 800").count(), 1)

# %% [markdown]
# ## Keep the good work
#
# The rollback brought *all* rows back, the pot's old shelf included. The good commits in between are the changes of
# the snapshots that other writers made: `changes` has them, and writing their new rows again is all there is to do.
#
# (A commit that touched a row *after* a bad one has the bad value in its other columns. Look before you replay.)

# %%
for snapshot in prices.snapshots().to_pylist():
    if tagged < snapshot["id"] < rollback.snapshot_id and snapshot["writer"] != "pricing":
        changed = prices.changes(after=snapshot["id"] - 1, until=snapshot["id"], columns=list(schema.names)).to_arrow()
        again = prices.write(
            changed.filter(pa.compute.field("_row_kind") != "-U"),
            writer="on-call",
            # A repeated run of this cell applies nothing twice: the writer's number of the commit is known.
            identifier=snapshot["id"],
        )
        print(f"snapshot {snapshot['id']} of {snapshot['writer']} is applied again as snapshot {again.snapshot_id}")
show(prices, "Old prices, new shelf")

check("the pot is on its new shelf", prices.count("item = 'pot' AND shelf = 'C9'"), 1)
check("no price is in cents", prices.count("price > 100"), 0)

# %% [markdown]
# ## The story stays readable
#
# The rollback was a commit like any other. Were it a mistake, `rollback_to(4)` would undo it.

# %%
history = prices.system_table("snapshots").scan(["id", "kind", "writer", "identifier", "properties"]).to_arrow()
show(history, "All snapshots")
prices.rollback_to(4)
check("the rollback can be rolled back", prices.count("price = 800"), 1)
prices.rollback_to(6)
check("and forth again", prices.count("price > 100"), 0)

# %%
sandbox.close()
print("Done.")
