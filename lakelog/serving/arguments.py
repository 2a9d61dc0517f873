"""Reading a service's command line and environment: an argument wins over its variable."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from lakelog.errors import InvalidArgument
from lakelog.privacy.redaction import blot_out

_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("", "0", "false", "no", "off")
_MOST: Final = 1e9
"""The largest number without a bound of its own, so that a count or a time can be made from it."""


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with exit code 2."""
        # Without the usage text, which would hide the error.
        print(f"{self.prog}: {blot_out(_without_values(message))} (see --help)", file=sys.stderr)  # noqa: T201
        raise SystemExit(2)


@dataclass(frozen=True)
class Argument:
    """An argument of the command line, with its environment variable.

    Args:
        name: The name as written, without the leading dashes.
        variable: The environment variable; empty: none.
        what: Its purpose, as `--help` shows it.
        form: The keyword arguments for `argparse`.
    """

    name: str
    variable: str
    what: str
    form: Mapping[str, Any] = field(default_factory=lambda: {"metavar": "X"})

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Adds it to a parser; its value is None if it is not given."""
        variable = f" [{self.variable}]" if self.variable else ""
        parser.add_argument(f"--{self.name}", default=None, help=f"{self.what}{variable}", **self.form)


class Values:
    """Values by argument or variable. Arguments are known by their names, without the leading dashes.

    Args:
        given: The parsed command line.
        environment: The environment's variables.
        known: The arguments.
    """

    def __init__(self, given: Mapping[str, Any], environment: Mapping[str, str], known: Iterable[Argument]) -> None:
        self._given = given
        self.environment: Final = environment
        self._variables = {argument.name: argument.variable for argument in known}

    def given(self, name: str) -> Any:
        """The argument's value from the command line, as `argparse` made it; None: not given."""
        return self._given.get(name.replace("-", "_"))

    def variable(self, name: str) -> str:
        """The value of an argument's variable; empty: not given."""
        return self.environment.get(self._variables[name], "")

    def text(self, name: str) -> str | None:
        """A text; None: not given."""
        given: str | None = self.given(name)
        return given if given is not None else (self.variable(name) or None)

    def required(self, name: str) -> str:
        """A text that must be there."""
        value = self.text(name)
        if not value:
            raise refusal(f"--{name} is missing: give it or set {self._variables[name]}.")
        return value

    def switch(self, name: str) -> bool:
        """Whether a switch is given, or its variable is true."""
        if self.given(name):
            return True
        text = self.variable(name).lower()
        if text not in _TRUE + _FALSE:
            raise refusal(f"{self._variables[name]}={text} is neither true nor false: set 1 or 0.")
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
            raise refusal(f"--{name}={text} must be a number {bounds}.")
        return value

    def port(self, name: str) -> int | None:
        """A port, 0 for a free one; None: not given."""
        return None if self.text(name) is None else int(self.number(name, 0, 0, 65535))

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of several words."""
        value = self.text(name) or default
        if value not in choices:
            raise refusal(f"--{name}={value} must be one of {', '.join(choices)}.")
        return value


def refusal(message: str) -> InvalidArgument:
    """The error for an argument that is not possible."""
    return InvalidArgument(blot_out(message), reason="ARGUMENT")


def _without_values(message: str) -> str:
    """Argparse's message about unknown arguments, with their names only: a value can be a secret. Pure."""
    what, colon, words = message.partition("unrecognized arguments: ")
    if not colon:
        return message
    names = [word.partition("=")[0] for word in words.split(" ") if word.startswith("-")]
    return f"{what}{colon}{' '.join(names) or 'values without a name'}"
