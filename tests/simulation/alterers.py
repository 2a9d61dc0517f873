"""Who changes the table's columns in the simulation, while everybody else goes on.

The columns that all actors know stay, so that their history is the same one. Those that come and go have a default, so
that writers may leave them out; readers that began with them end when they go, and subscribe again.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from lakelog.errors import InvalidArgument, OutcomeUnknown, Unavailable
from lakelog.format.types.column_changes import AddColumn, ColumnChange, CommentColumn, DropColumn, MoveColumn
from tests.simulation.actors import TABLE, World, persistently

_KNOWN = ("k", "v")


def alter(world: World) -> None:
    """Changes columns now and then."""
    random = world.scheduler.random
    table = persistently(world, lambda: world.catalog().table(TABLE))
    for number in range(15):
        world.scheduler.sleep(random.uniform(0.05, 1.5))
        change = _choose(world, number)
        try:
            # Refused where an answer was lost before, or another has made it.
            with suppress(InvalidArgument):
                world.catalog().metastore.alter_columns(table.uuid, changes=[change])
                world.alterations += 1
        except (OutcomeUnknown, Unavailable):
            world.scheduler.sleep(1)


def _choose(world: World, number: int) -> ColumnChange:
    random = world.scheduler.random
    names = persistently(world, lambda: world.catalog().table(TABLE)).info.schema.arrow.names
    added = [name for name in names if name not in _KNOWN]
    if added and random.random() < 0.5:
        return DropColumn(random.choice(added))
    if random.random() < 0.3:
        return MoveColumn("v", first=True) if random.random() < 0.5 else CommentColumn("v", f"at {number}")
    # A name that was there before is a new column.
    return AddColumn(f"x{random.randrange(3)}", pa.string(), default=f"d{number}", first=random.random() < 0.5)
