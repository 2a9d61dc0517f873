"""`lakelog plot`: pictures of a table as SVG files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from lakelog.cli.input.arguments import Whole
from lakelog.cli.invocation import FileCommand, Invocation, LakelogGroup, pass_invocation
from lakelog.pictures.svg.picture import DEFAULT_WIDTH, LEAST_WIDTH

if TYPE_CHECKING:
    from lakelog.pictures.svg.picture import Picture
    from lakelog.sdk.tables.table import Table

Data = TypeVar("Data")
F = TypeVar("F", bound=Callable[..., Any])

_STANDARD_OUTPUT: Final = "-"
_MOST_WIDE: Final = 4000


class _PlotGroup(LakelogGroup):
    command_class = FileCommand


@click.group(cls=_PlotGroup)
def plot() -> None:
    """Draw a picture of a table as SVG.

    It goes into the file of -o, or else into one that is named like the table and the picture. With --output json and
    without -o the figures are printed instead. Pictures have a light and a dark scheme.
    """


def _check_file(context: click.Context, parameter: click.Parameter, file: str | None) -> str | None:
    if file not in (None, _STANDARD_OUTPUT) and not str(file).endswith(".svg"):
        raise click.UsageError(
            f"-o {file!r:.100} names no picture: here -o takes a file that ends in .svg, or -. The format is --output."
        )
    return file


def _picture_options(command: F) -> F:
    """The arguments of all pictures."""
    for option in (
        click.option(
            "--width", type=Whole(LEAST_WIDTH, _MOST_WIDE), default=DEFAULT_WIDTH, show_default=True, help="Its width."
        ),
        click.option(
            "-o",
            "file",
            metavar="FILE",
            callback=_check_file,
            help="The file, ending in .svg; - is the standard output.  [default: DATABASE.TABLE-PICTURE.svg]",
        ),
        click.argument("name", metavar="DATABASE.TABLE"),
    ):
        command = option(command)
    return command


_snapshot = click.option(
    "--snapshot", type=Whole(1), metavar="N", help="The state of snapshot N.  [default: the newest]"
)


@plot.command(example=("lakelog plot files shop.orders -o files.svg",))
@_picture_options
@_snapshot
@pass_invocation
def files(invocation: Invocation, name: str, file: str | None, width: int, snapshot: int | None) -> None:
    """Sizes of files against the target."""
    from lakelog.pictures.files import draw_files, load_files

    _draw(invocation, name, lambda table: load_files(table, snapshot), draw_files, file, width)


@plot.command(
    example=(
        "lakelog plot levels shop.orders -o levels.svg",
        "lakelog plot levels shop.orders --bucket 0 -o bucket-0.svg",
    )
)
@_picture_options
@click.option("--partition", metavar="COLUMN=VALUE,...", help="Only this partition.")
@click.option("--bucket", type=Whole(0), metavar="N", help="Only bucket N.")
@_snapshot
@pass_invocation
def levels(
    invocation: Invocation,
    name: str,
    file: str | None,
    width: int,
    partition: str | None,
    bucket: int | None,
    snapshot: int | None,
) -> None:
    """Levels and sorted runs of buckets.

    Several buckets give an overview; of a single one each file is shown.
    """
    from lakelog.pictures.levels import draw_levels, load_levels
    from lakelog.sdk.maintenance.compaction_choice import read_partition

    values = None if partition is None else read_partition(partition, "--partition", "--bucket or the SDK")
    _draw(invocation, name, lambda table: load_levels(table, values, bucket, snapshot), draw_levels, file, width)


@plot.command(example=("lakelog plot lag shop.orders -o lag.svg",))
@_picture_options
@pass_invocation
def lag(invocation: Invocation, name: str, file: str | None, width: int) -> None:
    """How far behind readers and the log are."""
    from lakelog.pictures.lag import draw_lag, load_lag

    _draw(invocation, name, load_lag, draw_lag, file, width)


@plot.command(example=("lakelog plot freshness shop.orders -o freshness.svg",))
@_picture_options
@pass_invocation
def freshness(invocation: Invocation, name: str, file: str | None, width: int) -> None:
    """When readers see the rows of a commit."""
    from lakelog.pictures.freshness import draw_freshness, load_freshness

    _draw(invocation, name, load_freshness, draw_freshness, file, width)


@plot.command(example=("lakelog plot timeline shop.orders -o timeline.svg",))
@_picture_options
@pass_invocation
def timeline(invocation: Invocation, name: str, file: str | None, width: int) -> None:
    """Snapshots, tags and readers over time."""
    from lakelog.pictures.timeline import draw_timeline, load_timeline

    _draw(invocation, name, load_timeline, draw_timeline, file, width)


@plot.command(example=("lakelog plot path shop.orders -o path.svg",))
@_picture_options
@pass_invocation
def path(invocation: Invocation, name: str, file: str | None, width: int) -> None:
    """From writers to readers, with positions."""
    from lakelog.pictures.path import draw_path, load_path

    _draw(invocation, name, load_path, draw_path, file, width)


@plot.command(example=("lakelog plot amplification shop.orders -o amplification.svg",))
@_picture_options
@pass_invocation
def amplification(invocation: Invocation, name: str, file: str | None, width: int) -> None:
    """Bytes that compactions write, and commits."""
    from lakelog.pictures.amplification import draw_amplification, load_amplification

    _draw(invocation, name, load_amplification, draw_amplification, file, width)


def _draw(
    invocation: Invocation,
    name: str,
    load: Callable[[Table], Data],
    draw: Callable[[Data, int], Picture],
    file: str | None,
    width: int,
) -> None:
    """Loads a picture's data and draws it, or prints the data."""
    printer = invocation.printer
    if file == _STANDARD_OUTPUT and printer.for_programs:
        raise click.UsageError("-o - and --output both want the standard output. Leave one of them out.")
    data = load(invocation.catalog.table(name))
    if file is None and printer.for_programs:
        printer.document(dataclasses.asdict(data))  # type: ignore[call-overload]
        return
    picture = draw(data, width)
    if file == _STANDARD_OUTPUT:
        printer.raw(picture.to_svg())
        return
    path = Path(file or f"{name}-{click.get_current_context().info_name}.svg")
    path.write_text(picture.to_svg(), encoding="utf-8")
    printer.done(f"{picture.description} Drawn into {path}.", {"file": str(path), "description": picture.description})
