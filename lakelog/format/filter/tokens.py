"""The tokens of SQL, as Spark reads them: names, numbers, texts and signs, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from lakelog.errors import InvalidArgument

MAX_FILTER_LENGTH: Final = 100_000
"""Characters of one condition: room for an IN list of ten thousand values, and a bound on hostile input."""

_TOKEN: Final = re.compile(
    r"""
      (?P<hint>/\*\+(?:[^*]|\*(?!/))*\*/)
    | (?P<space>\s+|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    | (?P<text>[rR]?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))
    | (?P<hex>[xX]'[^']*')
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|[LSYDF])?(?![A-Za-z0-9_]))
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<name>[^\W\d]\w*)
    | (?P<sign><=>|<=|>=|<>|!=|==|\|\||[-+*/%<>=!(),.:;$\[\]{}&|^~])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_SIMPLE_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)


@dataclass(frozen=True)
class Token:
    """One token.

    Args:
        kind: `text`, `hex`, `number`, `quoted` (a name in back-quotes), `name`, `sign`, `hint` or `end`.
        text: As written; for `text`, `hex` and `quoted` its value, for `hint` its content.
        start: Place of its first character.
        end: The place after its last character.
    """

    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """Upper-case name, or the sign; empty for anything else, so that a quoted name is never a keyword."""
        return self.text.upper() if self.kind in ("name", "sign") else ""


@dataclass(frozen=True)
class Source:
    """The text that is parsed, and its description in messages.

    Args:
        text: All of it.
        failure: The beginning of messages.
        reason: The reason of grammar errors.
        longest: The maximum number of characters.
        remedy: What to do if it has more.
    """

    text: str
    failure: str = "The filter cannot be used"
    reason: str = "FILTER_SYNTAX"
    longest: int = MAX_FILTER_LENGTH
    remedy: str = "Filter by a range instead of single values, or join with a table of the values."

    def fail(self, position: int, explanation: str, reason: str = "") -> NoReturn:
        """Raises an InvalidArgument that shows a place; the explanation ends with the remedy."""
        found = self.text[position : position + 30]
        shown = f"before {found!r}" if found else "at its end"
        line = self.text.count("\n", 0, position) + 1
        column = position - (self.text.rfind("\n", 0, position) + 1) + 1
        place = f"at character {column}" if line == 1 else f"in line {line} at character {column}"
        raise InvalidArgument(
            f"{self.failure}: {place}, {shown}: {explanation}",
            reason=reason or self.reason,
            metadata={"position": str(position + 1)},
        )


def split_tokens(source: Source, *, with_hints: bool = False) -> list[Token]:
    """Splits a text into tokens; the last one has the kind `end`. Pure.

    A hint, `/*+ ... */`, looks like a comment but has a meaning: it is refused if the caller would ignore it.

    Args:
        source: The text.
        with_hints: Whether the caller handles hints, which are tokens then.

    Raises:
        InvalidArgument: The text is too long, has a hint, or something that is no token, with its place.
    """
    text = source.text
    if len(text) > source.longest:
        raise InvalidArgument(
            f"{source.failure}: it has {len(text)} characters; at most {source.longest} are possible. {source.remedy}",
            reason="SQL_TOO_LARGE",
        )
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            source.fail(position, "This is no word of SQL, or a text or comment that is not closed.")
        kind = str(match.lastgroup)
        if kind == "hint" and not with_hints:
            source.fail(position, "Hints are possible only after a table that a query reads. Leave it out.")
        if kind != "space":
            tokens.append(Token(kind, _meaning(kind, match[0], source, position), position, match.end()))
        position = match.end()
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def _meaning(kind: str, written: str, source: Source, position: int) -> str:
    if kind == "quoted":
        return written[1:-1].replace("``", "`")
    if kind == "hex":
        digits = written[2:-1]
        if len(digits) % 2 or not re.fullmatch("[0-9a-fA-F]*", digits):
            source.fail(position, "Give an even number of hexadecimal digits, as in X'0AFF'.")
        return digits
    if kind == "hint":
        return written[3:-2]
    if kind != "text":
        return written
    if written[0] in "rR":
        return written[2:-1]
    quote = written[0]
    return _ESCAPE.sub(_unescape, written[1:-1].replace(quote * 2, quote))


def _unescape(match: re.Match[str]) -> str:
    short, long, octal, other = match.groups()
    if short or long:
        code = int(short or long, 16)
        # A lone surrogate cannot be stored as UTF-8; Spark ends up with the replacement character as well.
        return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd"
    if octal:
        return chr(int(octal, 8))
    # \% and \_ stay unchanged for LIKE.
    return "\\" + other if other in "%_" else _SIMPLE_ESCAPES.get(other, other)
