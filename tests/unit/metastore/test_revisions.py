"""What is read from the migrations' files is what alembic finds in them, and what says that it only adds does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from metastore.postgres.schema.revisions import MIGRATIONS, Revisions, read_revisions

FILES = sorted((MIGRATIONS / "versions").glob("*.py"))
FIRST_WITH_A_NOTE = "0008"
_ADDING = {"create_table", "create_index", "add_column", "bulk_insert"}


def test_the_revisions_are_those_of_alembic() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    revisions = read_revisions()
    assert revisions.head == scripts.get_current_head()
    assert revisions.previous == {script.revision: script.down_revision for script in scripts.walk_revisions()}


def test_a_database_is_served_from_the_newest_revision_that_a_step_needs() -> None:
    previous = {"1": None, "2": "1", "3": "2", "4": "3"}
    assert Revisions(previous).find_served_from("3") == "3", "steps that say nothing"
    only_adding = {"2": "1", "3": "1", "4": "2"}
    assert Revisions(previous, only_adding).find_served_from("4") == "2"
    assert Revisions(previous, {"4": "1"}).find_served_from("4") == "3"


def find_what_changes(text: str) -> list[str]:
    """What a step does beyond adding: old metastores could fail by it, or overlook what it means."""
    found: list[str] = []
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if not isinstance(node.func.value, ast.Name) or node.func.value.id != "op":
            continue
        name = node.func.attr
        if name not in _ADDING:
            found.append(name)
        elif name == "add_column" and not _is_optional(node.args[1]):
            found.append("add_column that old metastores do not fill")
        elif name == "bulk_insert" and not _is_made_here(tree, node.args[0]):
            found.append("rows of a table that old metastores know")
        elif name == "create_index" and any(each.arg == "unique" for each in node.keywords):
            found.append("unique index")
    return found


def _is_made_here(tree: ast.AST, table: ast.expr) -> bool:
    """Whether a table is what `op.create_table` of the same step returned."""
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return any(
        ast.unparse(node.targets[0]) == ast.unparse(table) and ast.unparse(node.value).startswith("op.create_table(")
        for node in made
    )


def _is_optional(column: ast.expr) -> bool:
    assert isinstance(column, ast.Call)
    words = {each.arg: ast.unparse(each.value) for each in column.keywords}
    return words.get("nullable") == "True" or "server_default" in words


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_step_that_older_metastores_can_serve_only_adds(file: Path) -> None:
    revisions = read_revisions()
    revision = file.stem.partition("_")[0]
    if revision < FIRST_WITH_A_NOTE:
        assert revision not in revisions.served_from, "merged migrations are never edited"
        return
    served_from = revisions.served_from.get(revision)
    assert served_from, f"say from which revision on metastores can serve a database after {file.name}: served_from"
    assert served_from in revisions.previous
    if served_from != revision:
        assert find_what_changes(file.read_text()) == []


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ('op.add_column("t", sa.Column("c", sa.Text, nullable=True))', []),
        ('op.add_column("t", sa.Column("c", sa.Text, nullable=False, server_default="x"))', []),
        ('op.add_column("t", sa.Column("c", sa.Text, nullable=False))', ["add_column that old metastores do not fill"]),
        ('op.create_index("i", "t", ["c"])', []),
        ('op.create_index("i", "t", ["c"], unique=True)', ["unique index"]),
        ('op.drop_column("t", "c")', ["drop_column"]),
        ('op.execute("UPDATE t SET c = 1")', ["execute"]),
    ],
)
def test_what_only_adds_is_distinguished_from_what_changes(statement: str, found: list[str]) -> None:
    assert find_what_changes(statement) == found
