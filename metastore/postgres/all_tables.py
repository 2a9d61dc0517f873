"""All tables, wherever they are declared."""

from __future__ import annotations

from typing import Final

from . import tables
from .told_tables import full_count

# Which of those of the other room is named does not matter: they are all declared with it.
assert full_count.metadata is tables.metadata, "the tables belong to one database"

metadata: Final = tables.metadata
