"""`lakelog database`: make, list and drop databases."""

from __future__ import annotations

import click

from lakelog.cli.input.confirmation import confirm
from lakelog.cli.invocation import Invocation, LakelogGroup, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_bytes, format_count

_COLUMNS = (
    Column("name", "DATABASE", may_cut=True),
    Column("tables", "TABLES", format_count, right=True),
    Column("size_bytes", "SIZE", format_bytes, right=True),
    Column("comment", "COMMENT", may_cut=True),
)


@click.group(cls=LakelogGroup)
def database() -> None:
    """Make, list and drop databases."""


@database.command()
@click.argument("name")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the database exists already.")
@click.option("--comment", default="", help="A comment.")
@pass_invocation
def create(invocation: Invocation, name: str, if_not_exists: bool, comment: str) -> None:
    """Make the database NAME."""
    made = invocation.catalog.create_database(name, if_not_exists=if_not_exists, comment=comment)
    sentence = f"Created database {name}." if made else f"Database {name} existed already; nothing was changed."
    invocation.printer.done(sentence, {"database": name, "created": made})


@database.command("list")
@pass_invocation
def list_(invocation: Invocation) -> None:
    """List all databases."""
    records = [
        {"name": found.name, "tables": found.table_count, "size_bytes": found.size_bytes, "comment": found.comment}
        for found in invocation.catalog.metastore.list_databases()
    ]
    invocation.printer.records(
        _COLUMNS, records, empty="There are no databases yet. Make one: lakelog database create shop"
    )


@database.command()
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Do nothing if there is no such database.")
@click.option("--cascade", is_flag=True, help="Also drop its tables.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def drop(invocation: Invocation, name: str, if_exists: bool, cascade: bool, yes: bool) -> None:
    """Drop the database NAME.

    Without --cascade it must have no tables.
    """
    confirm(
        invocation,
        f"Drop database {name}{' and all of its tables' if cascade else ''}?",
        yes,
        declined="Nothing was dropped.",
    )
    dropped = invocation.catalog.drop_database(name, if_exists=if_exists, cascade=cascade)
    sentence = f"Dropped database {name}." if dropped else f"There is no database {name}; nothing was changed."
    invocation.printer.done(sentence, {"database": name, "dropped": dropped})
