"""Tables of the fault lab, and what is written to them: each row has a value that no other row ever has."""

from __future__ import annotations

from random import Random
from typing import Final

import pyarrow as pa

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

DATABASE: Final = "faults"
SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
VALUE: Final = ("v",)
WHOLE_ROWS: Final = 100_000
"""Snapshots of more rows are published in chunks."""

_KEYS: Final = 40
"""Few, so that keys are written again and again."""

_LARGE_ROWS: Final = 120_000


def make_table(catalog: Catalog, name: str, servers: str, *, keyed: bool) -> Table:
    """An empty table with a log of two partitions."""
    options = {"bucket": "2", "log.system": "kafka", "kafka.bootstrap.servers": servers}
    if not keyed:
        options["bucket-key"] = "k"
    return catalog.create_table(f"{DATABASE}.{name}", SCHEMA, primary_key=["k"] if keyed else [], options=options)


def make_batch(seed: int, writer: str, identifier: int, *, keyed: bool, large: float = 0.0) -> pa.Table:
    """What a writer's source holds for a number: always the same.

    Args:
        seed: Decides, with the writer and the number.
        writer: Its name.
        identifier: The number.
        keyed: Whether the table has a key.
        large: The chance that it is published in chunks, of tables without a key.
    """
    dice = Random(f"{seed}/{writer}/{identifier}")
    if not keyed and dice.random() < large:
        keys = [row % 1000 for row in range(_LARGE_ROWS)]
    elif keyed:
        keys = dice.sample(range(_KEYS), dice.randint(1, 8))
    else:
        keys = [dice.randrange(_KEYS) for _ in range(dice.randint(1, 20))]
    values = [f"{writer}.{identifier}.{row}" for row in range(len(keys))]
    kinds = ["-D" if keyed and dice.random() < 0.2 else "+I" for _ in keys]
    return pa.table({"k": keys, "v": values}, schema=SCHEMA).append_column("_row_kind", pa.array(kinds))
