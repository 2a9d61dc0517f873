"""`lakelog status`: whether lakelog is reachable, its health, and its contents."""

from __future__ import annotations

import click

from lakelog.cli.commands.health.status_record import load_status, print_status
from lakelog.cli.failures import ExitCode
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation


@click.command(cls=LakelogCommand, example=("lakelog status", "lakelog status --watch"))
@click.option("--watch", is_flag=True, help="Show it on a full screen, again every two seconds, until q or Ctrl-C.")
@pass_invocation
def status(invocation: Invocation, watch: bool) -> ExitCode:
    """Show lakelog's health and contents.

    Services are the processes that report to the metastore every few seconds. One that stops reporting is silent at
    first, then gone, and leaves the list ten minutes later. One that ends in good order leaves the list at once.

    Jobs are the work that commits leave for compactors: how many are due, and for how long. Of the external logs, the
    one with the longest delay is shown. Both are measured every ten seconds or so. Disk is the disk of this machine
    that holds tables.

    Overdue snapshots would have expired, but something needs them: a consumer, a reader, the publisher of a log, or a
    changelog that is still to be made. 'lakelog consumers delete' forgets a consumer.

    At the end stands what is wrong now, at most 20 problems of a kind, each with the command that helps.

    With --watch a metastore that goes away is shown as such, and comes back by itself. Where the output is no terminal,
    --watch prints a line for each look, and with --output json an object.

    The exit code is 5 if lakelog does not serve, but with --watch 0.
    """
    if watch:
        from lakelog.cli.commands.health.watching import watch_status

        return watch_status(invocation)
    found = load_status(invocation)
    if invocation.printer.for_programs:
        invocation.printer.document(found.record)
    else:
        print_status(invocation.printer, found)
    if found.serving.is_serving:
        return ExitCode.FINE
    if found.serving.latency_ms is None:
        tls = " without TLS" if invocation.tls is None else " with TLS (if not, leave --tls and the TLS files out)"
        invocation.printer.note(
            f"Is lakelog running there{tls}? --target or LAKELOG_TARGET names another address.", style=""
        )
    return ExitCode.UNAVAILABLE
