"""Computes expressions of PromQL from samples: the part that `promql.Parser` reads, as Prometheus would.

`rate` and `increase` do not extrapolate to the ends of their range, so they are a little lower than Prometheus's.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from tests.support.promql import Parser

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Series = dict[tuple[str, Labels], list[tuple[float, float]]]
"""By name and labels: moments in seconds, and values."""

_STALE_S: Final = 300.0
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": lambda a, b: a / b if b else math.nan,
}  # fmt: skip
_STRENGTH: Final = {"or": 1, "and": 2, "unless": 2, **dict.fromkeys(_COMPARISONS, 3), "+": 4, "-": 4, "*": 5, "/": 5}
_AGGREGATIONS: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "sum": sum, "max": max, "min": min, "avg": lambda some: sum(some) / len(some), "count": len,
}  # fmt: skip


def scrape(series: Series, at_s: float, text: str, instance: str = "a:9090") -> None:
    """Adds what a service shows at a moment, as Prometheus does."""
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = frozenset({**sample.labels, "instance": instance}.items())
            series.setdefault((sample.name, labels), []).append((at_s, sample.value))


def compute(expression: str, series: Series, at_s: float) -> Vector:
    """The vector that an expression is at a moment; a number is one without labels."""
    found = _Computation(Parser(expression).tokens, series, at_s)._operation(0)
    return {frozenset(): found} if isinstance(found, float) else found


@dataclass
class _Computation:
    tokens: list[tuple[str, str]]
    series: Series
    at_s: float

    def _peek(self) -> str:
        return self.tokens[0][1] if self.tokens else ""

    def _take(self) -> str:
        return self.tokens.pop(0)[1]

    def _operation(self, strength: int) -> Vector | float:
        left = self._operand()
        while _STRENGTH.get(self._peek(), 0) > strength:
            sign = self._take()
            on: list[str] | None = None
            given: list[str] = []
            if self._peek() == "on":
                self._take()
                on = self._labels()
                if self._peek() == "group_left":
                    self._take()
                    given = self._labels() if self._peek() == "(" else []
            left = _join(sign, left, self._operation(_STRENGTH[sign]), on, given)
        return left

    def _operand(self) -> Vector | float:
        kind, word = self.tokens.pop(0)
        if kind == "number":
            return float(word)
        if word == "(":
            return self._until_bracket()
        if word == "time":
            self._take(), self._take()
            return self.at_s
        if word in _AGGREGATIONS:
            by: list[str] = []
            if self._peek() == "by":
                self._take()
                by = self._labels()
            return _aggregate(_AGGREGATIONS[word], self._inside(), by)
        if word == "absent":
            return {} if self._inside() else {frozenset(): 1.0}
        if word in ("histogram_quantile", "topk"):
            self._take()
            number = self._operand()
            self._take()
            vector = self._until_bracket()
            assert isinstance(number, float)
            assert isinstance(vector, dict)
            return _quantile(number, vector) if word == "histogram_quantile" else _top(int(number), vector)
        if word in ("rate", "increase", "deriv"):
            self._take()
            name, matches = self._take(), self._matches()
            length_s = _to_seconds(self._take())
            self._take()
            return self._over_range(word, name, matches, length_s)
        return self._now(word, self._matches())

    def _inside(self) -> Vector:
        self._take()
        found = self._until_bracket()
        assert isinstance(found, dict)
        return found

    def _until_bracket(self) -> Vector | float:
        found = self._operation(0)
        assert self._take() == ")"
        return found

    def _labels(self) -> list[str]:
        self._take()
        names = []
        while (word := self._take()) != ")":
            names += [word] if word != "," else []
        return names

    def _matches(self) -> list[tuple[str, str, str]]:
        found = []
        if self._peek() == "{":
            self._take()
            while self._peek() != "}":
                found.append((self._take(), self._take(), self._take().strip('"')))
                if self._peek() == ",":
                    self._take()
            self._take()
        return found

    def _find(
        self, name: str, matches: Iterable[tuple[str, str, str]]
    ) -> Iterable[tuple[Labels, list[float], list[float]]]:
        for (own, labels), samples in self.series.items():
            values = dict(labels)
            if own == name and all(_matches(values.get(label, ""), sign, text) for label, sign, text in matches):
                past = [(at, value) for at, value in samples if at <= self.at_s]
                yield labels, [at for at, _ in past], [value for _, value in past]

    def _now(self, name: str, matches: list[tuple[str, str, str]]) -> Vector:
        found = self._find(name, matches)
        return {labels: values[-1] for labels, at, values in found if at and self.at_s - at[-1] < _STALE_S}

    def _over_range(self, word: str, name: str, matches: list[tuple[str, str, str]], length_s: float) -> Vector:
        found: Vector = {}
        for labels, at, values in self._find(name, matches):
            inside = [place for place, moment in enumerate(at) if moment > self.at_s - length_s]
            if len(inside) < 2:
                continue
            moments, some = [at[place] for place in inside], [values[place] for place in inside]
            if word == "deriv":
                found[labels] = (some[-1] - some[0]) / (moments[-1] - moments[0])
                continue
            steps = itertools.pairwise(some)
            risen = sum(after - before if after >= before else after for before, after in steps)
            found[labels] = risen / length_s if word == "rate" else risen
        return found


def _matches(value: str, sign: str, text: str) -> bool:
    is_so = re.fullmatch(text, value) is not None if "~" in sign else value == text
    return is_so is not sign.startswith("!")


def _to_seconds(text: str) -> float:
    return 300.0 if "$" in text else float(text[1:-2]) * _SECONDS[text[-2]]


def _only(labels: Labels, names: Iterable[str]) -> Labels:
    return frozenset(each for each in labels if each[0] in names)


def _aggregate(how: Callable[[list[float]], float], vector: Vector, by: list[str]) -> Vector:
    groups: dict[Labels, list[float]] = {}
    for labels, value in vector.items():
        groups.setdefault(_only(labels, by), []).append(value)
    return {labels: float(how(values)) for labels, values in groups.items()}


def _top(number: int, vector: Vector) -> Vector:
    return dict(sorted(vector.items(), key=lambda each: -each[1])[:number])


def _quantile(quantile: float, vector: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, value in vector.items():
        bound = float(dict(labels)["le"])
        groups.setdefault(frozenset(each for each in labels if each[0] != "le"), []).append((bound, value))
    return {labels: _place(quantile, sorted(buckets)) for labels, buckets in groups.items()}


def _place(quantile: float, buckets: list[tuple[float, float]]) -> float:
    """Within the bucket of the quantile values are spread evenly; in the last one it is the highest bound."""
    rank, start, below = quantile * buckets[-1][1], 0.0, 0.0
    if not rank:
        return math.nan
    for bound, count in buckets:
        if count >= rank:
            return start if math.isinf(bound) else start + (bound - start) * (rank - below) / (count - below)
        start, below = bound, count
    raise AssertionError("the last bucket has all")


def _join(
    sign: str, left: Vector | float, right: Vector | float, on: list[str] | None, given: list[str]
) -> Vector | float:
    if isinstance(left, float) and isinstance(right, float):
        return _ARITHMETIC[sign](left, right)
    if isinstance(right, float):
        assert isinstance(left, dict)
        return _each(sign, {labels: (value, right) for labels, value in left.items()})
    if isinstance(left, float):
        return _each(sign, {labels: (left, value) for labels, value in right.items()})

    def key(labels: Labels) -> Labels:
        return labels if on is None else _only(labels, on)

    others = {key(labels): (labels, value) for labels, value in right.items()}
    if sign == "and":
        return {labels: value for labels, value in left.items() if key(labels) in others}
    if sign == "unless":
        return {labels: value for labels, value in left.items() if key(labels) not in others}
    if sign == "or":
        known = {key(labels) for labels in left}
        return {**left, **{labels: value for each, (labels, value) in others.items() if each not in known}}
    pairs = {}
    for labels, value in left.items():
        if key(labels) in others:
            other, right_value = others[key(labels)]
            pairs[labels | _only(other, given)] = (value, right_value)
    return _each(sign, pairs)


def _each(sign: str, pairs: Mapping[Labels, tuple[float, float]]) -> Vector:
    if sign in _COMPARISONS:
        return {labels: left for labels, (left, right) in pairs.items() if _COMPARISONS[sign](left, right)}
    return {labels: _ARITHMETIC[sign](left, right) for labels, (left, right) in pairs.items()}
