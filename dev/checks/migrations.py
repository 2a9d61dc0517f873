"""The migrations lead to the tables that the code declares."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lakelog.embedded.postgres import EmbeddedPostgres
from metastore.postgres.schema.migration import differences, migrate

TITLE = "a database made by the migrations is the one the code declares (alembic's comparison)"


def find_problems(root: Path) -> list[str]:
    """What an empty Postgres, brought to the newest version, lacks of the declared tables."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder)) as server:
        url = server.url().replace("+psycopg", "")
        migrate(url)
        return differences(url)
