"""`lakelog revoke`: take a grant back."""

from __future__ import annotations

import click

from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation


@click.command(cls=LakelogCommand, example=("lakelog revoke shop.orders --from ann",))
@click.argument("scope", metavar="DATABASE[.TABLE]")
@click.option("--from", "from_", required=True, metavar="NAME", help="The caller that has the grant.")
@pass_invocation
def revoke(invocation: Invocation, scope: str, from_: str) -> None:
    """Take a grant on a database or table back from a caller.

    It ends what the caller has open there within seconds. A caller with grants on a table and on its database keeps the
    other one. For admins and owners.
    """
    invocation.catalog.grants.revoke(scope, from_)
    invocation.printer.done(
        f"{from_} has no grant on {scope} any more.", {"scope": scope, "principal": from_, "revoked": True}
    )
