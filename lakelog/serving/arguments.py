"""Reading a service's command line and environment: an argument wins over its variable."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from lakelog.errors import InvalidArgument

Arguments = Mapping[str, tuple[str, str]]
"""Argument -> (its variable, what it is for)."""

_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("", "0", "false", "no", "off")
_MOST: Final = 1e9
"""Of a number without a bound of its own, so that a count or a time can be made of it."""


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with exit code 2."""
        # Without the usage, which would hide the one line that matters.
        print(f"{self.prog}: {message} (see --help)", file=sys.stderr)  # noqa: T201
        raise SystemExit(2)


def add_arguments(parser: argparse.ArgumentParser, arguments: Arguments) -> None:
    """Adds arguments that take a value."""
    for name, (variable, text) in arguments.items():
        parser.add_argument(f"--{name}", metavar="X", help=f"{text} [{variable}]")


class Values:
    """Values by argument or variable.

    Args:
        arguments: As parsed.
        environment: Variables.
        known: The arguments that take a value.
    """

    def __init__(self, arguments: Mapping[str, Any], environment: Mapping[str, str], known: Arguments) -> None:
        self._arguments = arguments
        self._environment = environment
        self._variables = {name.replace("-", "_"): variable for name, (variable, _) in known.items()}

    def text(self, name: str) -> str | None:
        """A text, or None where there is none."""
        value = self._arguments.get(name)
        return value if value is not None else (self._environment.get(self._variables[name]) or None)

    def required(self, name: str) -> str:
        """A text that must be there."""
        value = self.text(name)
        if not value:
            raise refusal(f"{shown(name)} is missing: give it or set {self._variables[name]}.")
        return value

    def flag(self, name: str, variable: str) -> bool:
        """Whether a flag is given, or its variable is true."""
        if self._arguments.get(name):
            return True
        text = self._environment.get(variable, "").lower()
        if text not in _TRUE + _FALSE:
            raise refusal(f"{variable}={text} is neither true nor false: set 1 or 0.")
        return text in _TRUE

    def number(self, name: str, default: float, first: float, last: float | None = None) -> float:
        """A number from `first` to `last`, or of at least `first`."""
        text = self.text(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not first <= value <= (_MOST if last is None else last):
            bounds = f"of at least {first:g}" if last is None else f"from {first:g} to {last:g}"
            raise refusal(f"{shown(name)}={text} must be a number {bounds}.")
        return value

    def port(self, name: str) -> int | None:
        """A port, 0 for a free one, or None where there is none."""
        return None if self.text(name) is None else int(self.number(name, 0, 0, 65535))

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of some words."""
        value = self.text(name) or default
        if value not in choices:
            raise refusal(f"{shown(name)}={value} must be one of {', '.join(choices)}.")
        return value


def refusal(message: str) -> InvalidArgument:
    """What is said of an argument that is not possible."""
    return InvalidArgument(message, reason="ARGUMENT")


def shown(name: str) -> str:
    """How an argument is written on the command line. Pure."""
    return "--" + name.replace("_", "-")
