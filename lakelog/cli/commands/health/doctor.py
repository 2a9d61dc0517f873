"""`lakelog doctor`: checks everything that lakelog needs, each with its remedy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from lakelog.cli.doctor.check import Result, Verdict, run_checks
from lakelog.cli.doctor.checks import CHECKS
from lakelog.cli.doctor.situation import Situation
from lakelog.cli.failures import ExitCode
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.cli.output.layout import Cell
from lakelog.cli.output.text import clean_text, plural
from lakelog.client.connection.target import parse_target
from lakelog.privacy.redaction import blot_out, remember_secrets

STYLES: Final = {
    Verdict.OK: "green",
    Verdict.WARNING: "yellow",
    Verdict.FAILED: "bold red",
    Verdict.SKIPPED: "dim",
}


@click.command(
    cls=LakelogCommand,
    example=("lakelog doctor", "lakelog doctor --only java --only disk", "lakelog doctor --kafka localhost:9092"),
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([check.name for check in CHECKS]),
    metavar="NAME",
    help=f"Only this check; repeatable. One of {', '.join(check.name for check in CHECKS)}.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("lakelog-data"),
    show_default=True,
    metavar="DIR",
    help="The folder of `lakelog up`.",
)
@click.option(
    "--database-url",
    envvar="LAKELOG_DATABASE_URL",
    show_envvar=True,
    metavar="URL",
    help="Check this Postgres directly. Prefer the variable.  [default: only through the metastore]",
)
@click.option("--kafka", metavar="HOST:PORT,...", help="Check these brokers.  [default: those of tables' logs]")
@click.option("--warehouse", metavar="URI", help="Check this place for files.  [default: that of the tables]")
@click.option("--details", is_flag=True, help="Show details also of what is fine.")
@pass_invocation
def doctor(
    invocation: Invocation,
    only: tuple[str, ...],
    data: Path,
    database_url: str | None,
    kafka: str | None,
    warehouse: str | None,
    details: bool,
) -> ExitCode:
    """Check everything that lakelog needs, each with its remedy.

    All checks run at once, and end within ten seconds even if nothing answers. A check is skipped if it needs what is
    not there. The check of the warehouse makes an object in its folder _lakelog_doctor and deletes it; no other check
    changes anything.

    The exit code is 1 if a check has failed.
    """
    # Wrong usage, and not a fault of each check.
    parse_target(invocation.address)
    situation = Situation(
        invocation, os.environ, data, database_url=database_url or None, kafka=kafka, warehouse=warehouse
    )
    results = examine(situation, only)
    failed = [each for each in results if each.finding.verdict is Verdict.FAILED]
    if invocation.printer.for_programs:
        invocation.printer.document({"ok": not failed, "checks": [describe_result(each) for each in results]})
    else:
        invocation.printer.cells([line for each in results for line in _to_lines(each, details)])
        counts = {verdict: sum(each.finding.verdict is verdict for each in results) for verdict in Verdict}
        said = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
        invocation.printer.say(f"\n{plural(len(results), 'check')}: {said}.")
    return ExitCode.FAILED if failed else ExitCode.FINE


def examine(situation: Situation, only: Sequence[str] = ()) -> list[Result]:
    """Runs all checks, or those named."""
    remember_secrets({"LAKELOG_DATABASE_URL": situation.database_url or ""})
    return run_checks([check for check in CHECKS if not only or check.name in only], situation)


def describe_result(result: Result) -> dict[str, Any]:
    """The record of a check; without secrets."""
    finding = result.finding
    return {
        "name": result.check.name,
        "result": finding.verdict.value,
        "summary": blot_out(finding.summary),
        "remedy": blot_out(finding.remedy) or None,
        "details": [blot_out(line) for line in finding.details],
        "took_ms": result.took_ms,
    }


def _to_lines(result: Result, details: bool) -> list[list[Cell]]:
    finding, verdict = result.finding, result.finding.verdict
    head = [
        Cell(f"{verdict.value:<8}", STYLES[verdict]),
        Cell(f"{result.check.name:<10}", "bold"),
        Cell(clean_text(blot_out(finding.summary)), ""),
    ]
    below = [f"Remedy: {finding.remedy}"] if finding.remedy else []
    if details or verdict in (Verdict.WARNING, Verdict.FAILED):
        below += finding.details
    return [head, *([Cell(" " * 18 + clean_text(blot_out(line)), "dim")] for line in below)]
