"""The declaration of an option, and how its value is read from the given options."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from lakelog.errors import InvalidArgument
from lakelog.options.declared.kafka_values import SecretReference
from lakelog.options.value_types import Duration, ValueType
from lakelog.privacy.redaction import blot_out_forms

T = TypeVar("T")

MAX_SHOWN_LENGTH: Final = 80
"""The most characters of a value that a message repeats."""

HIDDEN: Final = "..."
"""Stands for a value that no message repeats."""


class Scope(enum.Enum):
    """Where users give an option."""

    TABLE = "table"
    """When a table is made, or by ALTER TABLE."""
    SCAN = "scan"
    """With one read: `scan(options=...)`, or Spark's `.option(...)` of a read."""
    STREAM = "stream"
    """With one subscription: `subscribe(options=...)`, or Spark's `.option(...)` of `readStream`."""
    SPARK_STREAM = "spark stream"
    """With one stream out of a table in Spark: `.option(...)` of `readStream`."""
    WRITE = "write"
    """With one write: Spark's `.option(...)` of a write."""


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option.

    Args:
        type: How its values look.
        default: Its value if none is given.
        description: One or two sentences for users.
        scope: Where it is given.
        fixed_because: Why a table's option may not change after creation; empty: it may change.
        default_text: The default on the reference page, if the default depends on something.
    """

    key: str
    type: ValueType[T]
    default: T
    description: str
    scope: Scope = Scope.TABLE
    fixed_because: str = ""
    default_text: str = ""

    def parse(self, text: str) -> T:
        """Reads a value.

        Raises:
            InvalidArgument: It is not valid; names the option, the value and the remedy.
        """
        try:
            return self.type.parse(text)
        except ValueError as error:
            # A text in the place of a reference to a secret is probably the secret itself.
            shown = HIDDEN if isinstance(self.type, SecretReference) else text
            raise invalid_option(self.key, shown, f"{error}.") from None

    def check_new(self, text: str) -> None:
        """Check a value that is given now; an older value of a table only has to `parse`.

        Raises:
            InvalidArgument: It is a duration without a unit; names the option, the value and both spellings.
        """
        if isinstance(self.type, Duration):
            try:
                self.type.check_new(text)
            except ValueError as error:
                raise invalid_option(self.key, text, f"{error}.") from None

    def renew(self, text: str) -> str:
        """A table's value in the form for a new table: a duration with its unit."""
        try:
            self.check_new(text)
        except InvalidArgument:
            return self.type.format(self.parse(text))
        return text

    def read(self, options: Mapping[str, str]) -> T:
        """The option's value in `options`, or its default; InvalidArgument as in `parse`."""
        text = options.get(self.key)
        return self.default if text is None else self.parse(text)

    def refusal(self, options: Mapping[str, str], explanation: str) -> InvalidArgument:
        """The error about the option's value in `options`, as `invalid_option`."""
        return invalid_option(self.key, options[self.key], explanation)

    def format_default(self) -> str:
        """The default on the reference page; empty for none."""
        if self.default_text or self.default is None or self.default == ():
            return self.default_text
        return self.type.format(self.default)


def invalid_option(key: str, value: str, explanation: str) -> InvalidArgument:
    """An error about an option's value; the explanation consists of whole sentences and ends with the remedy."""
    # A broker's address can contain a password.
    value = blot_out_forms(value)
    explanation = blot_out_forms(explanation)
    shown = value if len(value) <= MAX_SHOWN_LENGTH else value[: MAX_SHOWN_LENGTH - 3] + "..."
    return InvalidArgument(
        f"Option '{key}' = '{shown}' is not possible. {explanation}",
        reason="INVALID_OPTION",
        metadata={"option": key, "value": shown},
    )
