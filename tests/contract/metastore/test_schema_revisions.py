"""Databases that a newer version has migrated: metastores of this version serve them if all was only added."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import psycopg
import pytest

from lakelog.errors import InvalidArgument
from metastore.config import ServeConfig, parse_command
from metastore.postgres import check_current, migrate
from metastore.postgres.connection.connections import libpq_url
from metastore.postgres.schema import alembic_steps, migration
from metastore.postgres.schema.revisions import MIGRATIONS, read_revisions
from metastore.server.startup import StartupFailure
from metastore.wiring import serve
from tests.support.metastore.making import empty, make_table
from tests.support.metastore.opening import open_in_process

HEAD = read_revisions().head
STEP = """
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{previous}"
branch_labels = None
depends_on = None
{served}

def upgrade() -> None:
    op.add_column("consumer", sa.Column("added_{revision}", sa.Text, nullable=True))
"""


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The migrations of a newer version, to which tests add steps."""
    return Path(shutil.copytree(MIGRATIONS, tmp_path / "migrations"))


def add_step(folder: Path, revision: str, previous: str, served_from: str = "") -> None:
    served = f'served_from = "{served_from}"' if served_from else ""
    step = STEP.format(revision=revision, previous=previous, served=served)
    (folder / "versions" / f"{revision}.py").write_text(step)


def migrate_by(folder: Path, url: str) -> str:
    """As the newer version does it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metastore.postgres.schema.revisions.MIGRATIONS", folder)
        patch.setattr(alembic_steps, "MIGRATIONS", folder)
        return migrate(url)


def test_what_a_newer_version_only_added_to_can_be_served(migrated_url: str, newer: Path) -> None:
    add_step(newer, "9001", HEAD, HEAD)
    add_step(newer, "9002", "9001", HEAD)
    assert check_current(migrated_url) is None
    assert migrate_by(newer, migrated_url) == "9002"
    assert check_current(migrated_url) == "9002"
    assert migrate(migrated_url) == "9002", "a pod of this version migrates before it serves"
    metastore = open_in_process(migrated_url)
    assert metastore.commit(empty(make_table(metastore), 1)).results[0].snapshot_id == 1
    metastore.close()
    assert migrate_by(newer, migrated_url) == "9002"


@pytest.mark.parametrize(
    "steps",
    [[("9001", "")], [("9001", "9001")], [("9001", ""), ("9002", HEAD)], [("9001", HEAD), ("9002", "9002")]],
    ids=["says nothing", "needs its own", "an earlier step does", "a later step does"],
)
def test_a_step_that_needs_its_own_metastores_keeps_others_out(
    migrated_url: str, newer: Path, steps: list[tuple[str, str]]
) -> None:
    previous = HEAD
    for revision, served_from in steps:
        add_step(newer, revision, previous, served_from)
        previous = revision
    assert migrate_by(newer, migrated_url) == previous
    for act in (check_current, migrate):
        with pytest.raises(
            InvalidArgument, match=rf"{previous}.*needs metastores of revision 900. or newer"
        ) as refused:
            act(migrated_url)
        assert refused.value.reason == "MIGRATION_UNKNOWN"


def test_a_start_that_may_migrate_ends_with_the_reason(migrated_url: str, newer: Path, tmp_path: Path) -> None:
    add_step(newer, "9001", HEAD, "9001")
    migrate_by(newer, migrated_url)
    arguments = ["serve", "--migrate", "--insecure-dev", "--listen", "127.0.0.1:0", "--database-url", migrated_url]
    config = parse_command([*arguments, "--warehouse", str(tmp_path / "w")], {}).config
    assert isinstance(config, ServeConfig)
    with pytest.raises(
        StartupFailure, match=r"revision 9001, which this version .*Run that version, or a newer one\.$"
    ):
        asyncio.run(serve(config))


def test_a_revision_that_no_one_noted_keeps_this_version_out(migrated_url: str, newer: Path) -> None:
    """As after a migration by a version that knew of no notes."""
    add_step(newer, "9001", HEAD, HEAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration, "_is_newer", lambda *_: False)
        migrate_by(newer, migrated_url)
    with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
        assert connection.execute("DELETE FROM schema_revision WHERE revision = '9001'").rowcount == 1
    with pytest.raises(InvalidArgument, match="a newer metastore migrated it"):
        check_current(migrated_url)


def test_a_step_that_fails_notes_nothing(migrated_url: str, newer: Path) -> None:
    add_step(newer, "9001", HEAD, HEAD)
    step = newer / "versions" / "9001.py"
    step.write_text(step.read_text() + '    raise ArithmeticError("no room")\n')
    with pytest.raises(ArithmeticError):
        migrate_by(newer, migrated_url)
    assert check_current(migrated_url) is None
    with psycopg.connect(libpq_url(migrated_url)) as connection:
        assert connection.execute("SELECT revision FROM schema_revision ORDER BY 1").fetchall() == [(HEAD,)]
