"""Reads the words of a statement one after the other, with errors that show their place."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NoReturn

from lakelog.format.filter.syntax import ExpressionParser, Syntax
from lakelog.format.filter.tokens import Source, Token, split_tokens
from lakelog.sql.statements import Name

MAX_STATEMENT_LENGTH: Final = 16 << 20
"""The most characters of one statement; INSERT ... VALUES is for few rows."""


def to_source(sql: str) -> Source:
    """A statement's text, for messages."""
    remedy = "Write rows by the SDK, as Arrow data."
    return Source(sql, "The statement cannot be run", "SQL_SYNTAX", MAX_STATEMENT_LENGTH, remedy)


class WordReader:
    """The words of one statement, and the current place of the reader.

    Args:
        sql: One statement; a semicolon may end it.

    Raises:
        InvalidArgument: It is too long, or something in it is no word.
    """

    def __init__(self, sql: str) -> None:
        self.source: Final = to_source(sql)
        tokens = split_tokens(self.source, with_hints=True)
        self._tokens = [token for token in tokens if token.kind != "hint"]
        self._hints = [token for token in tokens if token.kind == "hint"]
        self._next = 0

    def peek(self) -> Token:
        """The next word, without taking it."""
        return self._tokens[self._next]

    def peek_words(self, count: int) -> tuple[str, ...]:
        """The next words in upper case."""
        return tuple(token.word for token in self._tokens[self._next : self._next + count])

    @property
    def previous_end(self) -> int:
        """The place after the word that was taken last."""
        return self._tokens[self._next - 1].end if self._next else 0

    def take(self) -> Token:
        """Takes the next word."""
        token = self._tokens[self._next]
        if token.kind == "end":
            self.fail("The statement ends too early.")
        self._next += 1
        return token

    def accept(self, *words: str) -> bool:
        """Takes these words if they come next."""
        found = self.peek_words(len(words)) == words
        self._next += len(words) if found else 0
        return found

    def expect(self, *words: str, then: str = "") -> None:
        """Takes these words; `then` says what must follow, for the message."""
        for word in words:
            if not self.accept(word):
                self.fail(f"'{word}' is expected. {then}".rstrip())

    def expect_end(self, what: str) -> None:
        """Takes a semicolon, if there is one; then the statement must end."""
        self.accept(";")
        if self.peek().kind != "end":
            self.fail(f"{what} ends here. Run one statement at a time, and leave out what follows.")
        self._refuse_hints()

    def take_identifier(self, what: str) -> str:
        """Takes a name, quoted or not."""
        if self.peek().kind not in ("name", "quoted"):
            self.fail(f"The name of {what} is expected.")
        return self.take().text

    def take_name(self) -> Name:
        """Takes a table's name, with or without its database and catalog."""
        first = self.take_identifier("a table")
        if not self.accept("."):
            return self._with_system_table(Name(None, first))
        name = Name(first, self.take_identifier("a table"))
        if self.accept("."):
            name = Name(name.table, self.take_identifier("a table"), first)
        if self.peek().word == ".":
            self.fail("A table's name has at most three parts: catalog.database.table.")
        return self._with_system_table(name)

    def _with_system_table(self, name: Name) -> Name:
        """The name with `$files` or so, if that comes next."""
        if not self.accept("$"):
            return name
        return replace(name, table=f"{name.table}${self.take_identifier('a system table')}")

    def take_identifiers(self, what: str) -> tuple[str, ...]:
        """Takes names in parentheses."""
        self.expect("(", then=f"Names of {what} are written in parentheses.")
        names = [self.take_identifier("a column")]
        while self.accept(","):
            names.append(self.take_identifier("a column"))
        self.expect(")", then=f"Names of {what} are separated by commas.")
        return tuple(names)

    def take_text(self, what: str) -> str:
        """Takes a text in quotes."""
        if self.peek().kind != "text":
            self.fail(f"{what} is written in single quotes.")
        return self.take().text

    def take_value(self) -> Syntax:
        """Takes an expression."""
        parser = ExpressionParser(self.source, self._tokens, self._next)
        syntax = parser.parse_value()
        self._next = parser.position
        return syntax

    def take_expression(self, what: str, *until: str) -> str:
        """Takes an expression's text up to one of some words outside of it, or to the end of the statement.

        Args:
            what: What it is, for messages.
            until: The words in upper case; inside parentheses and CASE they belong to the expression.
        """
        start = end = self.peek().start
        depth = 0
        while (token := self.peek()).kind != "end":
            if depth == 0 and (token.word in until or token.word in (";", ")")):
                break
            depth += _EXPRESSION_DEPTHS.get(token.word, 0)
            end = token.end
            self._next += 1
        if end == start:
            self.fail(f"{what} is expected.")
        return self.source.text[start:end]

    def take_parenthesised(self, what: str) -> str:
        """Takes a text in parentheses, without them; hints in it belong to it."""
        opening = self.peek()
        self.expect("(", then=what)
        start, depth = self.peek().start, 1
        while depth:
            token = self.take()
            depth += {"(": 1, ")": -1}.get(token.word, 0)
        self._hints = [hint for hint in self._hints if not opening.start < hint.start < token.start]
        return self.source.text[start : token.start]

    def take_alias(self, *keywords: str) -> str | None:
        """Takes another name for what stands before, with or without AS; None: a keyword or the end follows."""
        if not self.accept("AS") and (self.peek().word in keywords or self.peek().kind not in ("name", "quoted")):
            return None
        return self.take_identifier("an alias")

    def take_type(self) -> tuple[str, int]:
        """Takes a type's text up to a word that cannot belong to it; returns the text and its place."""
        start = end = self.peek().start
        depth = 0
        while (token := self.peek()).kind != "end":
            if depth == 0 and (token.word in ("", ",", ")", ";") or token.word in _AFTER_TYPE):
                break
            depth += _DEPTHS.get(token.word, 0)
            end = token.end
            self._next += 1
        return self.source.text[start:end], start

    def rest_as_query(self) -> str:
        """The whole text from the next word on; hints in it belong to the query."""
        self._refuse_hints()
        return self.source.text[self.peek().start :]

    def accept_hint(self) -> Token | None:
        """Takes a hint if it comes next; None: there is none."""
        before = self.previous_end
        found = next((hint for hint in self._hints if before <= hint.start < self.peek().start), None)
        if found is not None:
            self._hints.remove(found)
        return found

    def _refuse_hints(self) -> None:
        for hint in self._hints:
            if hint.start < self.peek().start:
                self.fail(
                    "Hints are possible only after a table that a query reads or INSERT writes. Leave it out.", hint
                )

    def fail(self, explanation: str, token: Token | None = None) -> NoReturn:
        """Raises an error that shows the next word, or another one."""
        self.source.fail((token or self.peek()).start, explanation)


_AFTER_TYPE: Final = frozenset(
    {"NOT", "NULL", "COMMENT", "PRIMARY", "DEFAULT", "GENERATED", "CHECK", "REFERENCES", "UNIQUE", "FIRST", "AFTER"}
)
_EXPRESSION_DEPTHS: Final = {"(": 1, "[": 1, "CASE": 1, ")": -1, "]": -1, "END": -1}
_DEPTHS: Final = {"(": 1, "<": 1, ")": -1, ">": -1}
