"""A user's program as a type checker sees it: `./run check static_types` reads it, and a test runs it.

It calls all that may block. What is marked as an error must be one: an ignore that is not needed is an error itself.
"""

from __future__ import annotations

from typing import assert_type

import pyarrow as pa

import lakelog
import lakelog.aio


async def run(opened: lakelog.aio.Catalog) -> int:
    """Writes, reads, waits and asks; returns how many rows there are in the end."""
    async with opened as catalog:
        schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
        table = await catalog.create_table("shop.typed", schema, primary_key=["k"], options={"bucket": 2})
        assert_type(table, lakelog.aio.Table)
        stream = await table.subscribe("latest", consumer_id="typed", auto_commit=False)
        assert_type(stream, lakelog.aio.Subscription)
        written = await table.upsert(pa.table({"k": range(10), "v": ["a"] * 10}), writer="w", identifier=1)
        assert_type(written, lakelog.WriteResult)
        batch = await stream.read(20)
        assert_type(batch, lakelog.StreamBatch | None)
        await stream.commit()
        await stream.close()
        await change_rows(catalog, table)
        await look(catalog, table)
        return await table.count()


async def change_rows(catalog: lakelog.aio.Catalog, table: lakelog.aio.Table) -> None:
    """All kinds of writes."""
    await table.append([{"k": 10, "v": "b"}])
    await table.delete([{"k": 10}])
    assert_type(await table.update({"v": lakelog.literal("c")}, "k = 1"), lakelog.UpdateResult)
    await table.delete_where("k = 9")
    merged = await table.merge([{"k": 8, "v": "m"}], ["k"], lakelog.when_matched().update_all())
    assert_type(merged, lakelog.MergeResult)
    await table.write([{"k": 8, "v": "m", "_row_kind": "-D"}])
    seen = await table.scan(filter="k = 1")
    async with catalog.transaction(properties={"by": "typed"}) as tx:
        tx.guard(seen)
        inside = await tx.table("shop.typed")
        assert_type(inside, lakelog.aio.TransactionTable)
        await inside.delete([{"k": 7}])
    assert tx.result is not None
    assert await catalog.last_identifier("w", "shop.typed") == 1


async def look(catalog: lakelog.aio.Catalog, table: lakelog.aio.Table) -> None:
    """All kinds of reads and questions."""
    async for batch in table.scan(["k"], "k > :low", params={"low": 0}).to_batches():
        assert batch.num_rows
    assert_type(await table.changes(0), lakelog.aio.Scan)
    assert (await table.head(1)).num_rows == 1
    await table.tags.create("first", 1)
    assert (await table.tags.list()).num_rows == 1
    assert (await table.consumers.list()).num_rows == 1
    assert (await table.alter(set={"snapshot.num-retained.min": 5})) is table
    await table.expire_snapshots(dry_run=True)
    await table.compact(wait=False)
    assert (await (await catalog.system_table("shop.typed$snapshots")).to_arrow()).num_rows
    assert (await catalog.sql("SELECT count(*) AS n FROM shop.typed")).to_arrow().num_rows == 1
    assert await catalog.tables("shop") == ["typed"]
    assert_type(await catalog.databases(), list[str])
    assert (await catalog.grants.list()).num_rows == 0
    async with catalog.subscribe(["shop.typed"]) as stream:
        async for snapshot in stream.snapshots(timeout=20):
            assert_type(snapshot, lakelog.Snapshot)
            break


async def misuse(table: lakelog.aio.Table) -> None:
    """Nothing of this may pass; never run."""
    await table.append("rows")  # type: ignore[arg-type]
    await table.append([{"k": 1}], indentifier=1)  # type: ignore[call-arg]
    await table.count(params={"low": object()})  # type: ignore[dict-item]
    for _ in table.scan().to_batches():  # type: ignore[attr-defined]
        pass
