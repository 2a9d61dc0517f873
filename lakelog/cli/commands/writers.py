"""`lakelog writers`: the owners of writers' names."""

from __future__ import annotations

import click

from lakelog.cli.invocation import Invocation, LakelogGroup, pass_invocation


@click.group(cls=LakelogGroup)
def writers() -> None:
    """Hand the names of writers over to other callers."""


@writers.command(example=("lakelog writers release nightly-import",))
@click.argument("writer")
@pass_invocation
def release(invocation: Invocation, writer: str) -> None:
    """Take a writer's name from the caller that owns it; for admins.

    The next caller that uses the name owns it. Its commits and its epoch stay, and no instance is stopped: end the one
    that still runs first.
    """
    owner = invocation.metastore.release_writer(writer)
    former = f"It belonged to {owner}." if owner else "It had no owner."
    invocation.printer.done(
        f"Released writer {writer}. {former} The next caller that uses it owns it.",
        {"writer": writer, "former_owner": owner or None},
    )
