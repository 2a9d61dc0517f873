"""Binds a written condition to a schema: resolves names, types and constants, and reports errors with their place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final, NoReturn, cast

import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.format.filter.arrow import fold_constant
from lakelog.format.filter.domain import compare_constant
from lakelog.format.filter.functions import bind_arithmetic, bind_call, bind_negation, list_functions
from lakelog.format.filter.literals import number_constant
from lakelog.format.filter.syntax import Syntax, parse_condition
from lakelog.format.filter.tokens import Source
from lakelog.format.filter.tree import (
    FALSE,
    SWAPPED,
    TRUE,
    UNKNOWN,
    Column,
    Compare,
    Constant,
    IsNull,
    Matches,
    Node,
    all_of,
    any_of,
    equals_any,
    is_nan,
    negate,
)
from lakelog.format.filter.types import (
    can_cast,
    cast_constant,
    cast_node,
    common_type,
    family,
    text_constant,
    type_name,
)
from lakelog.format.types.sql_types import from_sql_type

MAX_PATTERN_LENGTH: Final = 1_000
"""Characters of a LIKE pattern that needs a regular expression; its automaton's size is bounded."""

_WHOLE_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_AGGREGATES: Final = frozenset(
    {"count", "sum", "avg", "mean", "min", "max", "first", "last", "any_value", "collect_list"}
)


def bind_condition(sql: str, schema: pa.Schema) -> Node:
    """Parses a condition and resolves it against a schema of canonical types. Pure.

    Raises:
        InvalidArgument: Shows the place and says what to write instead.
    """
    source = Source(sql)
    return _Binder(source, schema).condition(parse_condition(source))


def bind_constant(source: Source, syntax: Syntax) -> Constant:
    """Returns the value of an expression that names no columns. Pure.

    Raises:
        InvalidArgument: It names columns, or has no value; shows the place.
    """
    node = _Binder(source, pa.schema([])).value(syntax)
    return node if isinstance(node, Constant) else fold_constant(node)


class _Binder:
    def __init__(self, source: Source, schema: pa.Schema) -> None:
        self._source = source
        self._schema = schema

    def condition(self, syntax: Syntax) -> Node:
        node = self._bind(syntax)
        if pt.is_null(node.type):
            return UNKNOWN
        if not pt.is_boolean(node.type):
            self._fail(syntax, f"{self._describe(syntax, node)} is no condition. Compare it with something.")
        # A boolean column is compared with TRUE, which is the same and allows pruning.
        return Compare("=", node, TRUE) if isinstance(node, Column) else node

    def value(self, syntax: Syntax) -> Node:
        return self._bind(syntax)

    def _bind(self, syntax: Syntax) -> Node:
        match syntax.kind:
            case "and":
                return self._joined(syntax, all_of, FALSE)
            case "or":
                return self._joined(syntax, any_of, TRUE)
            case "not":
                return negate(self.condition(syntax.children[0]))
            case "compare":
                left, right = syntax.children
                return self._compare(syntax.value, left, self._bind(left), right, self._bind(right))
            case "distinct":
                left, right = syntax.children
                same = self._compare("<=>", left, self._bind(left), right, self._bind(right))
                return same if syntax.negated else negate(same)
            case "between":
                return self._between(syntax)
            case "in":
                return self._in(syntax)
            case "like":
                return self._like(syntax)
            case "is_null":
                operand = self._bind(syntax.children[0])
                return self._folded(IsNull(operand, syntax.negated), [operand])
            case "is_truth":
                return self._is_truth(syntax)
            case "name":
                return self._column(syntax)
            case "call" | "arithmetic" | "negate" | "cast":
                return self._computed(syntax)
            case _:
                return self._literal(syntax)

    def _joined(self, syntax: Syntax, join: object, absorbing: Constant) -> Node:
        assert callable(join)
        operands = [self.condition(child) for child in syntax.children]
        neutral = negate(absorbing)
        kept = [operand for operand in operands if operand != neutral]
        if absorbing in kept:
            return absorbing
        return cast(Node, join(kept)) if kept else neutral

    def _literal(self, syntax: Syntax) -> Constant:
        if syntax.kind == "null":
            return Constant(None, pa.null())
        if syntax.kind == "truth":
            return Constant(syntax.value == "TRUE", pa.bool_())
        if syntax.kind == "text":
            return Constant(syntax.value, pa.string())
        if syntax.kind == "hex":
            return Constant(bytes.fromhex(syntax.value), pa.binary())
        try:
            if syntax.kind == "typed_text":
                return text_constant(syntax.children[0].value, from_sql_type(syntax.value))
            return number_constant(syntax.value)
        except ValueError as error:
            self._fail(syntax, f"{error}.")

    def _column(self, syntax: Syntax) -> Column:
        if not syntax.children:
            names = self._schema.names
            found = self._find(syntax, names, "column")
            return Column((found,), self._schema.field(found).type)
        outer = self._column(syntax.children[0])
        if not pt.is_struct(outer.type):
            self._fail(
                syntax,
                f"Column '{'.'.join(outer.path)}' has type {type_name(outer.type)} and so no field '{syntax.value}'. "
                "Name the column alone; names of databases and tables are left out.",
            )
        found = self._find(syntax, [outer.type.field(i).name for i in range(outer.type.num_fields)], "field")
        return Column((*outer.path, found), outer.type.field(found).type)

    def _find(self, syntax: Syntax, names: list[str], what: str) -> str:
        matching = [name for name in names if name.casefold() == syntax.value.casefold()]
        if len(matching) != 1:
            self._fail_to_find(syntax, names, matching, what)
        return matching[0]

    def _fail_to_find(self, syntax: Syntax, names: list[str], matching: list[str], what: str) -> NoReturn:
        if matching:
            self._fail(syntax, f"Several {what}s are called '{syntax.value}' but for case: {', '.join(matching)}.")
        if not names:
            self._fail(syntax, "Here stands a constant. Texts stand in single quotes.")
        nearest = difflib.get_close_matches(syntax.value[:200], names, n=3, cutoff=0.5) or names[:20]
        listed = ", ".join(f"'{name}'" for name in nearest)
        self._fail(
            syntax,
            f"There is no {what} '{syntax.value}'. Nearest are {listed}. Texts stand in single quotes.",
            "UNKNOWN_COLUMN",
        )

    def _computed(self, syntax: Syntax) -> Node:
        arguments = [self._bind(child) for child in syntax.children]
        try:
            if syntax.kind == "call":
                node = bind_call(syntax.value, arguments)
                if node is None:
                    self._unknown_function(syntax)
            elif syntax.kind == "arithmetic":
                node = bind_arithmetic(syntax.value, arguments[0], arguments[1])
            elif syntax.kind == "negate":
                node = bind_negation(arguments[0])
            else:
                return self._cast(syntax, arguments[0])
        except ValueError as error:
            self._fail(syntax, f"{error}.")
        return self._folded(node, arguments)

    def _unknown_function(self, syntax: Syntax) -> NoReturn:
        if syntax.value.lower() in _AGGREGATES:
            self._fail(syntax, "Aggregates are not possible in a filter. Filter the result of the scan instead.")
        self._fail(
            syntax,
            f"There is no function {syntax.value}. Known are {', '.join(list_functions())}.",
            "UNKNOWN_FUNCTION",
        )

    def _cast(self, syntax: Syntax, operand: Node) -> Node:
        try:
            target = from_sql_type(syntax.value)
        except InvalidArgument as error:
            self._fail(syntax, error.message)
        if isinstance(operand, Constant):
            try:
                return cast_constant(operand, target)
            except (ValueError, ArithmeticError) as error:
                self._fail(syntax, f"{error}.")
        if not can_cast(operand.type, target):
            self._fail(
                syntax,
                f"A cast from {type_name(operand.type)} to {type_name(target)} could fail on single rows or is not the "
                "same everywhere. Cast the constant that it is compared with instead.",
            )
        return cast_node(operand, target)

    def _between(self, syntax: Syntax) -> Node:
        operand, low, high = syntax.children
        node = self._bind(operand)
        both = all_of(
            [
                self._compare(">=", operand, node, low, self._bind(low)),
                self._compare("<=", operand, node, high, self._bind(high)),
            ]
        )
        return negate(both) if syntax.negated else both

    def _in(self, syntax: Syntax) -> Node:
        first, *items = syntax.children
        operand = self._bind(first)
        values: dict[object, None] = {}
        found: list[Node] = []
        for item in items:
            node = self._compare("=", first, operand, item, self._bind(item))
            if (
                isinstance(node, Compare)
                and node.left == operand
                and node.operator == "="
                and isinstance(node.right, Constant)
                and not is_nan(node.right.value)
            ):
                values[node.right.value] = None
            else:
                found.append(node)
        if values:
            found.append(equals_any(operand, tuple(values)))  # type: ignore[arg-type]
        node = any_of(list(dict.fromkeys(found)))
        return negate(node) if syntax.negated else node

    def _is_truth(self, syntax: Syntax) -> Node:
        operand = self.condition(syntax.children[0])
        # A comparison with a constant is NULL where its column is, and this can exclude files.
        plain = isinstance(operand, Compare) and isinstance(operand.right, Constant)
        null = IsNull(operand.left if plain and isinstance(operand, Compare) else operand)
        if syntax.value == "UNKNOWN":
            node: Node = null
        else:
            wanted = operand if syntax.value == "TRUE" else negate(operand)
            node = all_of([negate(null), wanted])
        if isinstance(operand, Constant):
            node = fold_constant(node)
        return negate(node) if syntax.negated else node

    def _like(self, syntax: Syntax) -> Node:
        operand = self._bind(syntax.children[0])
        pattern, *escapes = [self._bind(child) for child in syntax.children[1:]]
        if family(operand.type) not in ("text", "null"):
            self._fail(syntax, f"{self._describe(syntax.children[0], operand)} is no text. LIKE compares texts.")
        if not isinstance(pattern, Constant) or family(pattern.type) not in ("text", "null"):
            self._fail(syntax.children[1], "The pattern of LIKE is a constant text.")
        escape = escapes[0] if escapes else Constant("\\", pa.string())
        if not isinstance(escape, Constant) or not isinstance(escape.value, str) or len(escape.value) != 1:
            self._fail(syntax.children[-1], "ESCAPE takes a constant text of one character.")
        if pattern.value is None or pt.is_null(operand.type):
            return UNKNOWN
        node = self._folded(self._pattern(syntax, operand, str(pattern.value), escape.value), [operand])
        return negate(node) if syntax.negated else node

    def _pattern(self, syntax: Syntax, operand: Node, pattern: str, escape: str) -> Node:
        parts: list[str] = []  # Texts, and "%" or "_" for wildcards, which are marked by a leading NUL.
        position = 0
        while position < len(pattern):
            character = pattern[position]
            if character == escape:
                position += 1
                if pattern[position : position + 1] not in ("%", "_", escape):
                    self._fail(
                        syntax.children[1], f"In a pattern of LIKE, {escape!r} stands before %, _ or itself. Double it."
                    )
                parts.append(pattern[position])
            else:
                parts.append("\0" + character if character in "%_" else character)
            position += 1
        text = "".join(part for part in parts if len(part) == 1)
        wild = [part for part in parts if len(part) == 2]
        if not wild:
            return Compare("=", operand, Constant(text, pa.string()))
        if all(part == "\0%" for part in wild):
            inner = [len(part) == 1 for part in parts]
            lead, trail = not inner[0], not inner[-1]
            if len(wild) == lead + trail and (text or lead):
                kind = "contains" if lead and trail else "ends" if lead else "starts"
                return Matches(operand, kind, text)
        if len(pattern) > MAX_PATTERN_LENGTH:
            self._fail(syntax.children[1], f"A pattern with wildcards has at most {MAX_PATTERN_LENGTH} characters.")
        wildcards = {"\0%": ".*", "\0_": "."}
        body = "".join(wildcards.get(part) or re.escape(part) for part in parts)
        return Matches(operand, "regex", rf"(?s)\A{body}\z")

    def _compare(self, operator: str, left_syntax: Syntax, left: Node, right_syntax: Syntax, right: Node) -> Node:
        if operator == "<=>":
            return self._same(left_syntax, left, right_syntax, right)
        if _is_null_constant(left) or _is_null_constant(right):
            return UNKNOWN
        if isinstance(left, Constant) and not isinstance(right, Constant):
            return self._compare(SWAPPED[operator], right_syntax, right, left_syntax, left)
        if isinstance(right, Constant) and isinstance(right.value, str):
            right = self._text_as_other(left_syntax, left, right_syntax, right)
        if isinstance(left, Constant) and isinstance(left.value, str):
            left = self._text_as_other(right_syntax, right, left_syntax, left)
        if family(left.type) != family(right.type) or family(left.type) == "nested":
            self._mismatch(operator, left_syntax, left, right_syntax, right)
        if isinstance(right, Constant) and not isinstance(left, Constant):
            return compare_constant(operator, left, right)
        data_type = common_type(left.type, right.type)
        if data_type is None:
            self._mismatch(operator, left_syntax, left, right_syntax, right)
        return self._folded(Compare(operator, cast_node(left, data_type), cast_node(right, data_type)), [left, right])

    def _same(self, left_syntax: Syntax, left: Node, right_syntax: Syntax, right: Node) -> Node:
        """`<=>`: equal, or both NULL; never NULL."""
        if _is_null_constant(left) or _is_null_constant(right):
            operand = right if _is_null_constant(left) else left
            return self._folded(IsNull(operand), [operand])
        equal = self._compare("=", left_syntax, left, right_syntax, right)
        sides = [side for side in (left, right) if not isinstance(side, Constant)]
        if not sides:
            return equal
        valid: list[Node] = [IsNull(side, negated=True) for side in sides]
        both_valid = all_of([*valid, equal])
        return both_valid if len(sides) == 1 else any_of([all_of([negate(node) for node in valid]), both_valid])

    def _text_as_other(self, syntax: Syntax, node: Node, text_syntax: Syntax, text: Constant) -> Constant:
        """Casts a constant text to the type of the other operand, as Spark does; unchanged if that is no use."""
        try:
            if family(node.type) == "time":
                return text_constant(str(text.value), node.type)
            if family(node.type) == "number":
                # As Spark in ANSI mode: a whole number as BIGINT, any other as DOUBLE.
                if pt.is_integer(node.type) and _WHOLE_NUMBER.fullmatch(str(text.value)) is None:
                    raise ValueError(f"'{str(text.value)[:50]}' is no whole number. Write the number without quotes")
                return cast_constant(text, pa.int64() if pt.is_integer(node.type) else pa.float64())
            if family(node.type) in ("boolean", "binary"):
                return cast_constant(text, node.type)
        except ValueError as error:
            self._fail(text_syntax, f"{self._describe(syntax, node)} is compared with a text, but {error}.")
        return text

    def _mismatch(self, operator: str, left_syntax: Syntax, left: Node, right_syntax: Syntax, right: Node) -> NoReturn:
        remedy = "Cast one of them."
        if family(left.type) == "text" and isinstance(right, Constant):
            remedy = "Write the constant in single quotes."
        elif family(left.type) == "nested":
            remedy = "Compare a field inside it, or test it with IS NULL."
        self._fail(
            left_syntax,
            f"{self._describe(left_syntax, left)} cannot be compared by {operator} with "
            f"{self._describe(right_syntax, right)}. {remedy}",
            "TYPE_MISMATCH",
        )

    def _folded(self, node: Node, operands: Sequence[Node]) -> Node:
        return fold_constant(node) if all(isinstance(operand, Constant) for operand in operands) else node

    def _describe(self, syntax: Syntax, node: Node) -> str:
        if isinstance(node, Column):
            return f"Column '{'.'.join(node.path)}' of type {type_name(node.type)}"
        text = self._source.text[syntax.start : syntax.end]
        text = text if len(text) <= 60 else text[:57] + "..."
        return f"{text} of type {type_name(node.type)}"

    def _fail(self, syntax: Syntax, explanation: str, reason: str = "FILTER_INVALID") -> NoReturn:
        self._source.fail(syntax.start, explanation, reason)


def _is_null_constant(node: Node) -> bool:
    return isinstance(node, Constant) and node.value is None
