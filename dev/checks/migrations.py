"""The migrations lead to the tables that the code declares."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from dev.programs import problems_of
from lakelog.embedded.postgres import EmbeddedPostgres

TITLE = "a database made by the migrations is the one the code declares (alembic check)"

_MIGRATIONS = Path("metastore/postgres/migrations")

_PROGRAM = """
import sys
from alembic import command
from alembic.config import Config
config = Config()
config.set_main_option("script_location", sys.argv[1])
config.set_main_option("sqlalchemy.url", sys.argv[2].replace("%", "%%"))
command.upgrade(config, "head")
command.check(config)
"""


def find_problems(root: Path) -> list[str]:
    """What alembic says after it brought an empty Postgres to the newest version."""
    if not (root / _MIGRATIONS / "env.py").exists():
        return []
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder)) as server:
        return problems_of([sys.executable, "-c", _PROGRAM, str(root / _MIGRATIONS), server.url()], root)
