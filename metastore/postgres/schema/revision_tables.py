"""The table of the schema's own revisions; see `tables`."""

from __future__ import annotations

from sqlalchemy import Column, Table

from .tables import NAME, metadata

# To which revisions the database was brought, and the oldest one whose metastores can serve it then.
schema_revision = Table(
    "schema_revision",
    metadata,
    Column("revision", NAME, primary_key=True),
    Column("served_from", NAME, nullable=False),
)
