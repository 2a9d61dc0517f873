"""Reads the part of PromQL that dashboards, alerts and scalers use; anything else is refused.

It is stricter than Prometheus: `rate` and the like take counters with a range, and quantiles take buckets by `le`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<number>\d+(?:\.\d+)?)|(?P<text>\"[^\"]*\")"
    r"|(?P<range>\[(?:\d+[smhd]|\$__rate_interval)\])|(?P<sign>==|!=|=~|!~|<=|>=|[-+*/<>=(){},]))"
)
_AGGREGATIONS: Final = ("sum", "max", "min", "avg", "count")
_OF_RANGES: Final = ("rate", "increase", "deriv")
_OPERATORS: Final = ("+", "-", "*", "/", "==", "!=", "<", ">", "<=", ">=", "and", "or", "unless")


class WrongExpressionError(Exception):
    """Prometheus would refuse an expression, or it would mean something else."""


@dataclass(frozen=True)
class Selector:
    """The series that an expression reads: their name, the labels that it matches, and whether it reads a range."""

    name: str
    labels: tuple[str, ...] = ()
    range: str = ""


@dataclass
class Parser:
    """Reads one expression from its beginning to its end."""

    text: str
    selectors: list[Selector] = field(default_factory=list)
    tokens: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        place = 0
        while place < len(self.text.rstrip()):
            found = _TOKEN.match(self.text, place)
            if found is None:
                raise WrongExpressionError(f"{self.text[place:]!r} is no part of an expression")
            self.tokens.append((found.lastgroup or "", found[found.lastgroup or ""]))
            place = found.end()

    def parse(self) -> list[Selector]:
        """All that the expression reads."""
        self._expression()
        if self.tokens:
            raise WrongExpressionError(f"{self.tokens[0][1]!r} is left over")
        return self.selectors

    def _peek(self) -> str:
        return self.tokens[0][1] if self.tokens else ""

    def _take(self, *allowed: str) -> str:
        found = self._peek()
        if not found or (allowed and found not in allowed):
            raise WrongExpressionError(f"{found or 'the end'!r} stands where {' or '.join(allowed)} should")
        self.tokens.pop(0)
        return found

    def _expression(self) -> None:
        self._operand()
        while self._peek() in _OPERATORS:
            self._take()
            if self._peek() in ("on", "ignoring"):
                self._take()
                self._labels()
                if self._peek() in ("group_left", "group_right"):
                    self._take()
                    self._labels()
            self._operand()

    def _operand(self) -> None:
        kind = self.tokens[0][0] if self.tokens else "end"
        if kind == "number":
            self._take()
        elif self._peek() == "(":
            self._in_brackets()
        elif kind == "word":
            self._named(self._take())
        else:
            raise WrongExpressionError(f"{self._peek() or 'the end'!r} stands where a value should")

    def _named(self, name: str) -> None:
        if name in _AGGREGATIONS:
            if self._peek() in ("by", "without"):
                self._take()
                self._labels()
            self._in_brackets()
        elif name in _OF_RANGES:
            first = len(self.selectors)
            self._in_brackets()
            self._check_range(name, self.selectors[first:])
        elif name == "histogram_quantile":
            self._quantile()
        elif name == "topk":
            self._take("(")
            self._operand()
            self._take(",")
            self._expression()
            self._take(")")
        elif name == "absent":
            self._in_brackets()
        elif name == "time":
            self._take("(")
            self._take(")")
        elif self._peek() == "(":
            raise WrongExpressionError(f"there is no function {name}")
        else:
            self._selector(name)

    def _quantile(self) -> None:
        first, left = len(self.selectors), list(self.tokens)
        self._take("(")
        self._operand()
        self._take(",")
        self._expression()
        self._take(")")
        inside = [token for _, token in left[: len(left) - len(self.tokens)]]
        if "le" not in inside or not all(each.name.endswith("_bucket") for each in self.selectors[first:]):
            raise WrongExpressionError("histogram_quantile takes buckets by le")

    def _check_range(self, name: str, read: list[Selector]) -> None:
        if len(read) != 1 or not read[0].range:
            raise WrongExpressionError(f"{name} takes one metric with a range")
        is_counter = re.search(r"_(total|count|sum|bucket)$", read[0].name) is not None
        if is_counter is (name == "deriv"):
            raise WrongExpressionError(f"{name} of {read[0].name} means nothing")

    def _in_brackets(self) -> None:
        self._take("(")
        self._expression()
        self._take(")")

    def _labels(self) -> None:
        self._take("(")
        while self._peek() != ")":
            self._take()
            if self._peek() != ")":
                self._take(",")
        self._take(")")

    def _selector(self, name: str) -> None:
        labels = []
        if self._peek() == "{":
            self._take()
            while self._peek() != "}":
                labels.append(self._take())
                self._take("=", "!=", "=~", "!~")
                if self.tokens and self.tokens[0][0] != "text":
                    raise WrongExpressionError(f"{self._peek()!r} is no text")
                self._take()
                if self._peek() != "}":
                    self._take(",")
            self._take("}")
        has_range = bool(self.tokens) and self.tokens[0][0] == "range"
        self.selectors.append(Selector(name, tuple(labels), self._take() if has_range else ""))
