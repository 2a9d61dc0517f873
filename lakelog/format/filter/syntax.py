"""The grammar of filters: turns an SQL condition, as Spark reads it, into a syntax tree.

The parser is not sqlglot's: each error shows its place, nesting is bounded before anything recurses, and a scan need
not wait for the import of a library that reads all of SQL. `binding.py` resolves names, types and functions.

Precedence, as in Spark: OR; AND; NOT; one of IS, IN, BETWEEN, LIKE; comparisons; + and -; * / % and DIV; signs; `.`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from lakelog.format.filter.tokens import Source, Token, split_tokens

MAX_FILTER_DEPTH: Final = 200
"""Levels of nesting; the passes over the tree recurse, here and inside Arrow."""

MAX_FILTER_NODES: Final = 5_000
"""Nodes of a tree, constants not counted: evaluating a condition takes time that grows with their square,
and Arrow overruns its stack at some 20 000."""

COMPARISONS: Final = {
    "=": "=",
    "==": "=",
    "<>": "<>",
    "!=": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "<=>": "<=>",
}
_LOWEST: Final = 1
_NEGATION: Final = 3
_PREDICATE: Final = 4
_COMPARISON: Final = 5
_LEVELS: Final[dict[str, int]] = {
    "OR": _LOWEST,
    "AND": 2,
    **dict.fromkeys(("IS", "NOT", "IN", "LIKE", "BETWEEN", "ILIKE", "RLIKE", "REGEXP"), _PREDICATE),
    **dict.fromkeys(COMPARISONS, _COMPARISON),
    **dict.fromkeys(("+", "-"), 6),
    **dict.fromkeys(("*", "/", "%", "DIV"), 7),
}
"""The precedence of operators; NOT stands here for NOT IN and the like, which follow an operand."""

_RESERVED_WORDS: Final = frozenset(
    {*(word for word in _LEVELS if word.isalpha()), "ESCAPE", "AS", "WHEN", "THEN", "ELSE", "END", "FROM", "WHERE"}
)
_CONSTANTS: Final = frozenset({"number", "text", "hex", "typed_text", "null", "truth"})
_LISTS: Final = " Lists of values are written ARRAY(...), MAP(...) and STRUCT(...)."
_REMEDIES: Final = {
    "[": _LISTS,
    "{": _LISTS,
    ":": " A place such as :id takes its value from params={'id': ...}, in the SDK.",
}
_UNSUPPORTED: Final = {
    "SELECT": "Subqueries are not possible in a filter. Read the values first and give them in an IN list.",
    "WITH": "Subqueries are not possible in a filter. Read the values first and give them in an IN list.",
    "EXISTS": "Subqueries are not possible in a filter. Read the values first and give them in an IN list.",
    "CASE": "CASE is not possible in a filter. Write the cases with AND and OR.",
    "INTERVAL": "Intervals are not possible in a filter. Compute the date and write it as a constant.",
}


@dataclass(frozen=True)
class Syntax:
    """A node of the syntax tree.

    Args:
        kind: `or and not compare between in like is_null is_truth distinct arithmetic negate number text hex typed_text
            null truth name call cast`.
        start: Place of its first character in the condition.
        end: The place after its last character.
        value: The operator, name or literal, by kind.
        children: Operands in order.
        negated: For `between in like is_null is_truth distinct`: written with NOT.
        depth: 1 for a leaf.
    """

    kind: str
    start: int
    end: int
    value: str = ""
    children: tuple[Syntax, ...] = ()
    negated: bool = False
    depth: int = field(default=1, compare=False)


def parse_condition(source: Source) -> Syntax:
    """Parses an SQL condition. Pure.

    Raises:
        InvalidArgument: Not a condition, or too long, deep or large; shows the place and says what was expected.
    """
    return ExpressionParser(source, split_tokens(source)).parse_condition()


class ExpressionParser:
    """Precedence climbing: at most three frames of recursion for each level of nesting.

    Args:
        source: The whole text.
        tokens: All of its tokens.
        start: The index of the first token of the expression.
    """

    def __init__(self, source: Source, tokens: Sequence[Token], start: int = 0) -> None:
        self._source = source
        self._tokens = tokens
        self._next = start
        self._nesting = 0
        self._nodes = 0

    @property
    def position(self) -> int:
        """The index of the first token after the expression."""
        return self._next

    def parse_value(self) -> Syntax:
        """Parses an expression; anything may follow it."""
        return self._expression(_LOWEST)

    def parse_condition(self) -> Syntax:
        """Parses a condition that ends where the text ends."""
        if self._peek().kind == "end":
            self._fail("The filter is empty. Give a condition such as id > 5, or no filter.")
        tree = self._expression(_LOWEST)
        if self._peek().kind != "end":
            self._fail("A condition ends here. Join conditions with AND or OR, and leave out semicolons.")
        return tree

    def _expression(self, lowest: int) -> Syntax:
        """An operand and everything after it with operators that bind at least as strongly as `lowest`."""
        self._nesting += 1
        if self._nesting > MAX_FILTER_DEPTH:
            self._fail(f"It is nested deeper than {MAX_FILTER_DEPTH} levels. Flatten it.")
        left = self._operand(lowest)
        while (level := _LEVELS.get(self._peek().word, 0)) >= lowest:
            left = self._continued(left, level)
        self._nesting -= 1
        return left

    def _operand(self, lowest: int) -> Syntax:
        if lowest <= _NEGATION and self._peek().word in ("NOT", "!"):
            start = self._peek().start
            count = 0
            while self._peek().word in ("NOT", "!"):
                self._take()
                count += 1
            tree = self._expression(_NEGATION)
            # Pairs of NOT cancel each other, also for NULL.
            return self._node("not", start, children=(tree,)) if count % 2 else tree
        if self._peek().word in ("-", "+"):
            return self._signed()
        return self._primary()

    def _continued(self, left: Syntax, level: int) -> Syntax:
        word = self._peek().word
        if level == _PREDICATE:
            return self._predicate(left)
        self._take()
        right = self._expression(level + 1)
        if word in ("OR", "AND"):
            # One node for the whole chain, so that its length does not become depth.
            kind = word.lower()
            operands = [*(left.children if left.kind == kind else (left,)), right]
            while self._accept(word):
                operands.append(self._expression(level + 1))
            return self._node(kind, left.start, children=tuple(operands))
        if level == _COMPARISON:
            return self._node("compare", left.start, value=COMPARISONS[word], children=(left, right))
        return self._node("arithmetic", left.start, value=word, children=(left, right))

    def _predicate(self, left: Syntax) -> Syntax:
        negated = self._accept("NOT")
        token = self._take()
        if token.word == "BETWEEN":
            low = self._expression(_COMPARISON)
            self._expect("AND", "BETWEEN takes two values joined by AND.")
            high = self._expression(_COMPARISON)
            return self._node("between", left.start, children=(left, low, high), negated=negated)
        if token.word == "IN":
            return self._in_list(left, negated)
        if token.word == "LIKE":
            return self._like(left, negated)
        if token.word in ("ILIKE", "RLIKE", "REGEXP"):
            self._fail(
                f"{token.word} is not possible here. Use LIKE, with lower(...) where case does not count.", token
            )
        if negated:
            self._fail("After NOT in this place stands BETWEEN, IN or LIKE.", token)
        return self._is(left)

    def _in_list(self, left: Syntax, negated: bool) -> Syntax:
        self._expect("(", "IN takes a list of values in parentheses.")
        items = [self._expression(_LOWEST)]
        while self._accept(","):
            items.append(self._expression(_LOWEST))
        self._expect(")", "A list of values ends with a parenthesis.")
        return self._node("in", left.start, children=(left, *items), negated=negated)

    def _like(self, left: Syntax, negated: bool) -> Syntax:
        if self._peek().word in ("ANY", "SOME", "ALL"):
            self._fail("LIKE takes one pattern in a filter. Join several with OR or AND.")
        children = [left, self._expression(_COMPARISON)]
        if self._accept("ESCAPE"):
            children.append(self._expression(_COMPARISON))
        return self._node("like", left.start, children=tuple(children), negated=negated)

    def _is(self, left: Syntax) -> Syntax:
        negated = self._accept("NOT")
        token = self._take()
        if token.word == "NULL":
            return self._node("is_null", left.start, children=(left,), negated=negated)
        if token.word in ("TRUE", "FALSE", "UNKNOWN"):
            return self._node("is_truth", left.start, value=token.word, children=(left,), negated=negated)
        if token.word == "DISTINCT":
            self._expect("FROM", "IS DISTINCT FROM takes a value.")
            return self._node("distinct", left.start, children=(left, self._expression(_COMPARISON)), negated=negated)
        return self._fail("After IS [NOT] stands NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM.", token)

    def _signed(self) -> Syntax:
        signs: list[Token] = []
        while self._peek().word in ("-", "+"):
            signs.append(self._take())
        tree = self._primary()
        if sum(sign.text == "-" for sign in signs) % 2 == 0:
            return tree
        if tree.kind == "number":
            # The sign belongs to the number, so that the least BIGINT can be written.
            return Syntax("number", signs[0].start, tree.end, "-" + tree.value)
        return self._node("negate", signs[0].start, children=(tree,))

    def _primary(self) -> Syntax:
        token = self._take()
        if token.kind in ("number", "text", "hex"):
            return self._node(token.kind, token.start, value=token.text)
        if token.word == "(":
            if self._peek().word in ("SELECT", "WITH"):
                self._fail(_UNSUPPORTED["SELECT"])
            tree = self._expression(_LOWEST)
            self._expect(")", "A parenthesis is not closed.")
            return tree
        if token.kind not in ("name", "quoted"):
            remedy = _REMEDIES.get(token.word, "")
            self._fail(f"Here stands a column, a constant or a function.{remedy}", token)
        return self._named(token)

    def _named(self, token: Token) -> Syntax:
        following = self._peek()
        if token.word == "NULL":
            return self._node("null", token.start)
        if token.word in ("TRUE", "FALSE"):
            return self._node("truth", token.start, value=token.word)
        if token.word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ") and following.kind == "text":
            literal = self._node("text", self._take().start, value=following.text)
            return self._node("typed_text", token.start, value=token.word, children=(literal,))
        if token.word in ("CAST", "TRY_CAST") and following.word == "(":
            return self._cast(token)
        if token.word in _UNSUPPORTED and (token.word != "WITH" or following.word != "."):
            self._fail(_UNSUPPORTED[token.word], token)
        if token.word in _RESERVED_WORDS:
            self._fail(
                "Here stands a column, a constant or a function; put a column of this name in `back-quotes`.", token
            )
        if following.word == "(" or (following.word == "[" and token.word in ("ARRAY", "MAP")):
            return self._call(token)
        tree = self._node("name", token.start, value=token.text)
        while self._accept("."):
            part = self._take()
            if part.kind not in ("name", "quoted"):
                self._fail("After the dot stands the name of a field.", part)
            tree = self._node("name", token.start, value=part.text, children=(tree,))
        return tree

    def _cast(self, token: Token) -> Syntax:
        self._take()
        operand = self._expression(_LOWEST)
        self._expect("AS", "CAST is written CAST(value AS TYPE).")
        start, depth = self._peek().start, 0
        while self._peek().kind != "end" and (depth or self._peek().word != ")"):
            depth += {"(": 1, ")": -1}.get(self._take().word, 0)
        type_text = self._source.text[start : self._peek().start]
        self._expect(")", "CAST is written CAST(value AS TYPE).")
        return self._node("cast", token.start, value=type_text, children=(operand,))

    def _call(self, token: Token) -> Syntax:
        # ARRAY[1, 2] is ARRAY(1, 2), as Flink writes it.
        closing = {"(": ")", "[": "]"}[self._take().word]
        # A call takes more frames than a parenthesis.
        self._nesting += 1
        arguments: list[Syntax] = []
        if self._peek().word in ("DISTINCT", "*"):
            self._fail("Aggregates are not possible in a filter. Filter the result of the scan instead.")
        while self._peek().word != closing:
            arguments.append(self._expression(_LOWEST))
            if not self._accept(","):
                break
        self._expect(closing, f"The arguments of a function end with '{closing}'.")
        self._nesting -= 1
        if self._peek().word in ("OVER", "FILTER"):
            self._fail("Window functions are not possible in a filter. Filter the result of the scan instead.")
        return self._node("call", token.start, value=token.text, children=tuple(arguments))

    def _node(
        self, kind: str, start: int, *, value: str = "", children: tuple[Syntax, ...] = (), negated: bool = False
    ) -> Syntax:
        depth = 1 + max((child.depth for child in children), default=0)
        self._nodes += kind not in _CONSTANTS
        if depth > MAX_FILTER_DEPTH:
            self._fail(f"It is nested deeper than {MAX_FILTER_DEPTH} levels. Flatten it.", None, start)
        if self._nodes > MAX_FILTER_NODES:
            self._fail(
                f"It has more than {MAX_FILTER_NODES} parts. Use IN lists, or ranges instead of values.",
                None,
                start,
            )
        return Syntax(kind, start, self._tokens[self._next - 1].end, value, children, negated, depth)

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        if token.kind == "end":
            self._fail("The text ends too early.")
        self._next += 1
        return token

    def _accept(self, word: str) -> bool:
        found = self._peek().word == word
        self._next += found
        return found

    def _expect(self, word: str, explanation: str) -> None:
        if not self._accept(word):
            self._fail(f"'{word}' is expected. {explanation}")

    def _fail(self, explanation: str, token: Token | None = None, position: int | None = None) -> NoReturn:
        self._source.fail((token or self._peek()).start if position is None else position, explanation)
