"""`lakelog support-bundle`: all that helps to find a fault, in one file without secrets."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lakelog.cli.bundle.writing import write_bundle
from lakelog.cli.doctor.situation import Situation
from lakelog.cli.failures import ExitCode
from lakelog.cli.invocation import FileCommand, Invocation, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_bytes

_FILES = (
    Column("name", "FILE", may_cut=True),
    Column("bytes", "SIZE", format_bytes, right=True),
    Column("about", "WHAT IT IS", may_cut=True),
)


@click.command("support-bundle", cls=FileCommand, example=("lakelog support-bundle -o support.tar.gz",))
@click.option(
    "-o",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("lakelog-support.tar.gz"),
    show_default=True,
    metavar="FILE",
    help="The file to make.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("lakelog-data"),
    show_default=True,
    metavar="DIR",
    help="The folder of `lakelog up`, for its logs.",
)
@pass_invocation
def support_bundle(invocation: Invocation, file: Path, data: Path) -> ExitCode:
    """Collect all that helps to find a fault, in one file without secrets.

    It holds what `lakelog doctor` and `lakelog status` say, versions, configuration, definitions and options of tables,
    summaries of snapshots and jobs, and the newest part of each log of `lakelog up`. It holds no rows of tables. A
    manifest says what is inside, and what was left out and why. It works while the metastore is away.

    Secrets are masked. Look into the file before you send it: errors in logs may name values of your rows.
    """
    situation = Situation(invocation, os.environ, data, database_url=os.environ.get("LAKELOG_DATABASE_URL") or None)
    manifest = write_bundle(file, situation)
    record = {"file": str(file), "bytes": file.stat().st_size, **manifest.describe()}
    if invocation.printer.for_programs:
        invocation.printer.document(record)
        return ExitCode.FINE
    invocation.printer.records(_FILES, manifest.files, empty="")
    for each in manifest.left_out:
        invocation.printer.note(f"Without {each['name']}: {each['why']}")
    invocation.printer.say(f"\nMade {file} ({format_bytes(record['bytes'])}). Look into it before you send it.")
    return ExitCode.FINE
