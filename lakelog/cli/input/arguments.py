"""Arguments that several commands take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from lakelog.errors import InvalidArgument
from lakelog.options.value_types import Duration

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Whole(click.ParamType[int]):
    """A whole number within bounds.

    Args:
        first: The least that is allowed.
        last: The greatest; None: no bound.
    """

    name = "N"

    def __init__(self, first: int, last: int | None = None) -> None:
        self._first = first
        self._last = last

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Snapshots and jobs, where the number is the id of one."""
        from lakelog.cli.completion.choices import complete

        return complete(ctx, param, incomplete)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Reads the number, or fails with what is allowed."""
        text = str(value)
        number = int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20 else None
        if number is None or number < self._first or (self._last is not None and number > self._last):
            allowed = f"of at least {self._first}" if self._last is None else f"from {self._first} to {self._last}"
            self.fail(f"{text[:40]!r} is not a whole number {allowed}", param, ctx)
        return number


class Span(click.ParamType[int]):
    """A span of time with its unit, as options of tables write it; in milliseconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Reads the span, or fails with what to give."""
        if isinstance(value, int):
            return value
        try:
            return Duration().parse_new(str(value))
        except ValueError as error:
            self.fail(f"{str(value)[:40]!r} is no span of time. {error}.", param, ctx)


def parse_options(settings: Sequence[str], flag: str) -> dict[str, str]:
    """Reads `KEY=VALUE` texts. Pure.

    Raises:
        InvalidArgument: One has no `=`, or a key comes twice.
    """
    options: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InvalidArgument(f"{flag} {setting!r} is not of the form KEY=VALUE, for instance bucket=4.")
        if key in options:
            raise InvalidArgument(f"{flag} sets {key!r} twice; give it once.")
        options[key] = value.strip()
    return options


def split_names(text: str | None) -> list[str] | None:
    """Names apart from their commas; None stays None. Pure.

    Raises:
        InvalidArgument: A name is empty.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InvalidArgument(f"The list of columns {text!r} has an empty name. Write for instance id,name.")
    return names


takes_columns: Final = click.option(
    "-c", "--columns", metavar="COLUMNS", help="Names separated by commas.  [default: all]"
)
"""The columns of rows that are shown; see `split_names`."""
takes_change_condition: Final = click.option(
    "--filter", "condition", metavar="SQL", help="Only changed rows for which this is true."
)
takes_raw: Final = click.option(
    "--raw", is_flag=True, help="Rows as they were written, without looking up what was there before."
)


def takes_limit(what: str) -> Callable[[Decorated], Decorated]:
    """The option of how many rows are shown; `what` tells what the number means, and what is so without it."""
    return click.option("-n", "--limit", type=Whole(0), metavar="N", help=what)
