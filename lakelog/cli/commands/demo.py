"""`lakelog demo`: real data through every part of lakelog, on this machine, checked at the end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from lakelog.cli.failures import ExitCode
from lakelog.cli.invocation import Invocation, LakelogCommand, pass_invocation
from lakelog.privacy.process import keep_private


@click.command(cls=LakelogCommand, connects=False, example=("lakelog demo --data ./lakelog-demo",))
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("lakelog-demo"),
    show_default=True,
    metavar="DIR",
    help="The folder for the demo's data; each run removes it and makes it again.",
)
@click.option(
    "--kafka",
    is_flag=True,
    help="Run a Kafka broker, too, and follow the flights' changes with a plain Kafka consumer.",
)
@pass_invocation
def demo(invocation: Invocation, data: Path, kafka: bool) -> ExitCode:
    """Run a year of real flights through a pipeline, the SDK and Spark.

    Starts Postgres, the metastore, the console and the writer service, fills tables, reads them (also as of earlier
    times), and compares all results with the source's own data.
    """
    from rich.console import Console

    from lakelog.demo.folder import make_fresh_folder
    from lakelog.demo.story import Story
    from lakelog.embedded.stack import EmbeddedStack

    keep_private(os.environ)
    console = Console(highlight=False)
    began_s = time.monotonic()
    folder = make_fresh_folder(data.absolute())
    what = "Postgres, the metastore and Kafka" if kafka else "Postgres and the metastore"
    with console.status(f"starting {what} ..."):
        services = ["metastore", "compactor", "console", *(["publisher"] if kafka else [])]
        stack = EmbeddedStack(folder, services=services, kafka=kafka)
        stack.start()
    console.print(f"Watch it in a browser while it runs: {stack.console_url}", soft_wrap=True)
    try:
        Story(folder, stack, console).run()
    finally:
        stack.stop()
    console.print(f"[bold green]All equal.[/] {time.monotonic() - began_s:.0f} s in all.\n")
    with_kafka = " --kafka" if kafka else ""
    console.print(
        "What to try next:\n"
        f"  lakelog up --data {data}{with_kafka}          serves the demo's tables and the console again;\n"
        "  then, in another terminal,\n"
        "  lakelog snapshots nyc.flights\n"
        "  lakelog scan nyc.flights --filter \"carrier = 'HA' AND arr_delay > 60\"\n"
        '  lakelog sql -e "SELECT origin, avg(arr_delay) FROM nyc.flights GROUP BY origin"\n'
        "In a clone the command is ./run lakelog instead of lakelog.\n"
        f"To clean up: rm -r {data}",
        markup=False,
        # Commands with a line break inside cannot be copied.
        soft_wrap=True,
    )
    return ExitCode.FINE
