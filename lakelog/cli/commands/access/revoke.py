"""`lakelog revoke`: take a grant back."""

from __future__ import annotations

import click

from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation


@click.command(cls=LakelogCommand, example=("lakelog revoke shop.orders --from ann",))
@click.argument("scope", metavar="[DATABASE[.TABLE]]", required=False)
@click.option("--from", "from_", required=True, metavar="NAME", help="The caller that has the grant.")
@click.option("--uuid", metavar="UUID", help="The table's uuid in place of its name; for a dropped one.")
@pass_invocation
def revoke(invocation: Invocation, scope: str | None, from_: str, uuid: str | None) -> None:
    """Take a grant on a database or table back from a caller.

    It ends what the caller has open there within seconds. A caller with grants on a table and on its database keeps the
    other one. For admins and owners.
    """
    if scope is None and uuid is None:
        raise click.UsageError("Name the database or table that the grant is on, or give --uuid.")
    invocation.catalog.grants.revoke(scope, from_, uuid=uuid)
    on = scope or f"table {uuid}"
    invocation.printer.done(
        f"{from_} has no grant on {on} any more.", {"scope": scope, "uuid": uuid, "principal": from_, "revoked": True}
    )
