"""Rewrites what users of Flink and of lakelog write in queries and sqlglot does not read. Pure.

- `t$files`, a system table, gets back-quotes, since `$` otherwise begins a parameter.
- `FOR SYSTEM_VERSION AS OF` becomes `FOR VERSION AS OF`.
- `t /*+ OPTIONS('scan.snapshot-id' = '3') */` becomes a mark that stays with the table in the tree. For sqlglot a hint
  is a comment, so the query would silently show other rows than it asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakelog.format.filter.tokens import Source, Token, split_tokens
from lakelog.sql.create_table import take_options
from lakelog.sql.word_reader import MAX_STATEMENT_LENGTH, WordReader

_MARK: Final = "lakelog options {}"
_MARKED: Final = re.compile(r"lakelog options ([0-9]+)")


@dataclass(frozen=True)
class ReadableQuery:
    """A query that sqlglot can read.

    Args:
        text: The rewritten query.
        hints: The options of tables; a table is marked with an index of this list.
        source: The query as it was written, for errors.
        places: The place of each hint in the source.
    """

    text: str
    hints: tuple[dict[str, str], ...]
    source: Source
    places: tuple[int, ...]

    def fail_misplaced(self, number: int) -> None:
        """Raises the error for a hint that follows no table."""
        self.source.fail(self.places[number], "OPTIONS must directly follow the name of a table that is read.")


def to_readable(sql: str) -> ReadableQuery:
    """Rewrite a query so that sqlglot can read it.

    Raises:
        InvalidArgument: A hint is not possible; shows its place.
    """
    source = Source(sql, "The statement cannot be run", "SQL_SYNTAX", MAX_STATEMENT_LENGTH)
    if "$" not in sql and "/*+" not in sql and "system_version" not in sql.casefold():
        return ReadableQuery(sql, (), source, ())
    tokens = split_tokens(source, with_hints=True)
    hints: list[dict[str, str]] = []
    places: list[int] = []
    parts, end = [], 0
    for start, stop, text in _changes(tokens, source, hints, places):
        if start >= end:
            parts.append(sql[end:start] + text)
            end = stop
    return ReadableQuery("".join(parts) + sql[end:], tuple(hints), source, tuple(places))


def marked_hint(comments: list[str] | None) -> int | None:
    """The number of the hint in these comments of a tree's node; None: none."""
    for comment in comments or ():
        match = _MARKED.fullmatch(comment.strip())
        if match:
            return int(match[1])
    return None


def _changes(
    tokens: list[Token], source: Source, hints: list[dict[str, str]], places: list[int]
) -> Iterator[tuple[int, int, str]]:
    """The changes to make, in order, each as start, end and new text; also fills in the hints."""
    for i, token in enumerate(tokens):
        before = tokens[i - 1].word if i else ""
        if token.kind == "hint":
            # Spark's hints follow SELECT and say how to run a query; DuckDB decides that by itself.
            is_about_plan = before == "SELECT"
            if not is_about_plan:
                places.append(token.start)
                hints.append(read_options(token, source))
            yield token.start, token.end, " " if is_about_plan else f"/*{_MARK.format(len(hints) - 1)}*/"
        elif token.word == "SYSTEM_VERSION" and [each.word for each in tokens[i + 1 : i + 3]] == ["AS", "OF"]:
            yield token.start, token.end, "VERSION"
        elif token.kind == "name" and i + 2 < len(tokens):
            sign, after = tokens[i + 1 : i + 3]
            joined = sign.word == "$" and token.end == sign.start and sign.end == after.start
            if joined and after.kind == "name":
                yield token.start, after.end, f"`{token.text}${after.text}`"


def read_options(token: Token, source: Source) -> dict[str, str]:
    """The options of a hint after a table; InvalidArgument shows its place. Pure."""
    reader = WordReader(token.text)
    if not reader.accept("OPTIONS"):
        source.fail(token.start, "The only hint after a table is /*+ OPTIONS('key' = 'value') */. Leave others out.")
    options = take_options(reader)
    if reader.peek().kind != "end":
        source.fail(token.start, "The hint ends after the parentheses of OPTIONS. Give one OPTIONS for each table.")
    return options
