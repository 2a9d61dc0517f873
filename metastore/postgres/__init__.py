"""The store in Postgres: explicit row locks under READ COMMITTED, two round trips for a group of commits."""

from .schema.migration import check_current, migrate
from .store import PostgresStore

__all__ = ["PostgresStore", "check_current", "migrate"]
