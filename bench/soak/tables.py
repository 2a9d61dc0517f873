"""The tables of a soak: each kind of changelog and merging once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

SCHEMA: Final = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64()), pa.field("s", pa.string())]
)
DATABASE: Final = "soak"
KEYS: Final = 300
"""Few, so that keys meet again."""


@dataclass(frozen=True)
class SoakTable:
    """A table, and what may be done with it.

    Args:
        name: In the database of the soak.
        options: Its options.
        keyed: Whether it has a primary key.
        deletes: Whether rows may be deleted.
        overwrites: Whether it may be overwritten, and readers are told what that changed.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    keyed: bool = True
    deletes: bool = True
    overwrites: bool = False

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{DATABASE}.{self.name}"

    @property
    def all_options(self) -> dict[str, str]:
        """Its options, with those that follow from the others."""
        shown = {"streaming-read-overwrite": "true"} if self.overwrites else {}
        return dict(self.options) | shown


TABLES: Final = (
    SoakTable("plain", {"bucket": "2"}, overwrites=True),
    SoakTable("sequenced", {"bucket": "2", "sequence.field": "v"}),
    SoakTable("looked_up", {"bucket": "2", "changelog-producer": "lookup"}, overwrites=True),
    SoakTable(
        "deduplicated", {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true", "bucket": "3"}
    ),
    SoakTable("first", {"merge-engine": "first-row"}, deletes=False),
    SoakTable("first_looked_up", {"merge-engine": "first-row", "changelog-producer": "lookup"}, deletes=False),
    SoakTable("log", keyed=False, deletes=False),
    SoakTable("waiting", {"bucket": "2", "changelog-producer": "lookup", "lookup-wait": "false"}),
)
TOGETHER: Final = (TABLES[0], TABLES[2], TABLES[-2], TABLES[-1])
"""Those that one subscription follows."""
