"""The SQL form of table types: Spark's names, and the synonyms that Flink, Hive and ANSI users expect.

The parser is not sqlglot's: sqlglot reads `INT INT` as INT and `INT8` as one byte, knows no BYTES, loses NOT NULL
inside nested types, and its import alone (0.36 s) would exceed the budget of `import lakelog`.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.format.types.types import INSTANT, LOCAL_TIMESTAMP, MAX_FIELDS, MAX_TYPE_DEPTH, canonical_type

MAX_SQL_TYPE_LENGTH: Final = 1_000_000
"""Characters of one type; room for `MAX_FIELDS` fields of long names, and a bound on hostile input."""

_NAMES: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    INSTANT: "TIMESTAMP",
    LOCAL_TIMESTAMP: "TIMESTAMP_NTZ",
}
_TYPES: Final[dict[str, pa.DataType]] = {
    **{name: data_type for data_type, name in _NAMES.items()},
    "BOOL": pa.bool_(),
    "BYTE": pa.int8(),
    "SHORT": pa.int16(),
    "INTEGER": pa.int32(),
    "LONG": pa.int64(),
    "REAL": pa.float32(),
    "TEXT": pa.string(),
    "BYTES": pa.binary(),
    "TIMESTAMP_LTZ": INSTANT,
}
_STRINGS: Final = frozenset({"VARCHAR", "CHAR", "CHARACTER"})
_BINARIES: Final = frozenset({"BINARY", "VARBINARY"})
_TIMESTAMPS: Final = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_DECIMALS: Final = frozenset({"DECIMAL", "DEC", "NUMERIC"})
_INSTEAD: Final = {
    "TIME": "BIGINT microseconds since midnight, or STRING",
    "INTERVAL": "BIGINT, the unit in the column's name",
    "DATETIME": "TIMESTAMP for an instant, TIMESTAMP_NTZ for a wall-clock time",
    "MULTISET": "MAP<T, INT>, with how often each value is there",
    "VARIANT": "STRING with JSON, or STRUCT",
    "JSON": "STRING",
    "UUID": "STRING",
    "ENUM": "STRING",
    "BLOB": "BINARY",
    "HUGEINT": "DECIMAL(38, 0)",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20, 0)",
    "VECTOR": "ARRAY<FLOAT>",
}
"""Types of other systems that tables do not have, and what to use instead."""

_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([^\W\d]\w*)|(\d+)|([<>(),:])|('(?:[^']|'')*'))")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_sql_type(data_type: pa.DataType) -> str:
    """Returns a canonical type as SQL text that `from_sql_type` reads back to an equal type. Pure.

    Nested fields that cannot be NULL have `NOT NULL`; names that are no plain words are in back-quotes.

    Raises:
        InvalidArgument: The type is not canonical (`lakelog.format.types.types.canonical_type`).
    """
    if data_type in _NAMES:
        return _NAMES[data_type]
    if pt.is_decimal128(data_type):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if pt.is_list(data_type):
        return f"ARRAY<{_field_text(data_type.value_field)}>"
    if pt.is_map(data_type):
        return f"MAP<{to_sql_type(data_type.key_type)}, {_field_text(data_type.item_field)}>"
    if pt.is_struct(data_type):
        fields = (data_type.field(i) for i in range(data_type.num_fields))
        return "STRUCT<" + ", ".join(f"{quote_name(field.name)}: {_field_text(field)}" for field in fields) + ">"
    raise InvalidArgument(
        f"Type {data_type} has no SQL name; table types only have one. Bring it to its canonical type."
    )


def from_sql_type(text: str) -> pa.DataType:
    """Returns the canonical type of an SQL type name. Pure; ignores case.

    TIMESTAMP is an instant and TIMESTAMP_NTZ a wall-clock time, as in Spark. Lengths of VARCHAR(n), CHAR(n) and
    BINARY(n) are read and not enforced, as in Spark's own tables. `STRUCT<a: INT NOT NULL, b STRING>` and `ROW<...>`
    are the same; a nested field may say NOT NULL.

    Args:
        text: One type and nothing else, for instance `MAP<STRING, DECIMAL(10, 2)>`.

    Raises:
        InvalidArgument: It is not such a type; says at which character, what is there and what was expected.
    """
    if len(text) > MAX_SQL_TYPE_LENGTH:
        raise InvalidArgument(
            f"An SQL type of {len(text)} characters is longer than {MAX_SQL_TYPE_LENGTH}; shorten it."
        )
    parser = _Parser(text)
    data_type = parser.parse_type(1)
    parser.expect_end()
    return canonical_type(data_type, text if len(text) <= 60 else text[:57] + "...")


def _field_text(field: pa.Field) -> str:
    return to_sql_type(field.type) + ("" if field.nullable else " NOT NULL")


def quote_name(name: str) -> str:
    """A name in SQL: in back-quotes unless it is a plain word."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


class _Parser:
    """Recursive descent over the tokens of one type; depth and number of fields are bounded."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                self._fail_at(position, "a type, a name or one of < > ( ) , :")
            self._tokens.append((match[match.lastindex or 0], match.start(match.lastindex or 0)))
            position = match.end()
        self._next = 0
        self._fields = 0

    def parse_type(self, depth: int) -> pa.DataType:
        if depth > MAX_TYPE_DEPTH:
            self._fail(f"at most {MAX_TYPE_DEPTH} levels of nesting")
        self._fields += 1
        if self._fields > MAX_FIELDS:
            self._fail(f"at most {MAX_FIELDS} fields")
        name = self._peek().upper()
        if name == "ARRAY":
            return self._parse_array(depth)
        if name == "MAP":
            return self._parse_map(depth)
        if name in ("STRUCT", "ROW"):
            return self._parse_struct(depth)
        return self._parse_primitive(name)

    def expect_end(self) -> None:
        if self._next < len(self._tokens):
            self._fail("the end of the type")

    def _parse_array(self, depth: int) -> pa.DataType:
        self._next += 1
        self._expect("<")
        element = self.parse_type(depth + 1)
        nullable = self._parse_nullable()
        self._expect(">")
        return pa.list_(pa.field("element", element, nullable))

    def _parse_map(self, depth: int) -> pa.DataType:
        self._next += 1
        self._expect("<")
        key = self.parse_type(depth + 1)
        self._parse_nullable()
        self._expect(",")
        value = self.parse_type(depth + 1)
        nullable = self._parse_nullable()
        self._expect(">")
        return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value, nullable))

    def _parse_struct(self, depth: int) -> pa.DataType:
        self._next += 1
        self._expect("<")
        fields: list[pa.Field] = []
        taken: set[str] = set()
        while True:
            name = self._take_name()
            if name in taken:
                self._next -= 1
                self._fail(f"another name than '{name}', which is taken")
            taken.add(name)
            self._accept(":")
            data_type = self.parse_type(depth + 1)
            fields.append(pa.field(name, data_type, self._parse_nullable()))
            if self._peek().upper() == "COMMENT" or self._peek().startswith("'"):
                self._fail("no comment, which only whole columns have")
            if not self._accept(","):
                break
        self._expect(">")
        return pa.struct(fields)

    def _parse_primitive(self, name: str) -> pa.DataType:
        known = name in _TYPES or name in _DECIMALS or name in _STRINGS or name in _BINARIES
        if not known:
            if name in _INSTEAD:
                raise InvalidArgument(f"There is no type {name}. Use {_INSTEAD[name]}.")
            self._fail(
                "a type such as " + ", ".join(_NAMES.values()) + ", DECIMAL(p,s), ARRAY<..>, MAP<..>, STRUCT<..>"
            )
        self._next += 1
        if name in _DECIMALS:
            precision, scale = (*(self._parse_numbers(2) or (10,)), 0)[:2]
            if not 1 <= precision <= 38 or scale > precision:
                raise InvalidArgument(
                    f"DECIMAL({precision},{scale}) is not possible: the precision is 1 to 38, the scale 0 to that."
                )
            return pa.decimal128(precision, scale)
        if name in _STRINGS:
            self._accept_word("VARYING")
            self._parse_numbers(1)
            return pa.string()
        if name in _BINARIES:
            self._parse_numbers(1)
            return pa.binary()
        if name in _TIMESTAMPS:
            return self._parse_timestamp(name)
        if name == "DOUBLE":
            self._accept_word("PRECISION")
        return _TYPES[name]

    def _parse_timestamp(self, name: str) -> pa.DataType:
        numbers = self._parse_numbers(1)
        if numbers and numbers[0] > 6:
            raise InvalidArgument(
                f"{name}({numbers[0]}) is not possible: timestamps have microseconds, at most {name}(6)."
            )
        if name != "TIMESTAMP" or self._peek().upper() not in ("WITH", "WITHOUT"):
            return _TYPES[name]
        without = self._peek().upper() == "WITHOUT"
        self._next += 1
        if not without:
            self._accept_word("LOCAL")
        for word in ("TIME", "ZONE"):
            if not self._accept_word(word):
                self._fail(word)
        return LOCAL_TIMESTAMP if without else INSTANT

    def _parse_numbers(self, most: int) -> tuple[int, ...]:
        """Reads `(n)` or `(n, m)` if there is one."""
        if not self._accept("("):
            return ()
        numbers: list[int] = []
        while True:
            token = self._peek()
            if not token.isdigit() or len(token) > 10 or len(numbers) == most:
                self._fail("a whole number" if len(numbers) < most else ")")
            numbers.append(int(token))
            self._next += 1
            if not self._accept(","):
                break
        self._expect(")")
        return tuple(numbers)

    def _parse_nullable(self) -> bool:
        if not self._accept_word("NOT"):
            self._accept_word("NULL")
            return True
        if not self._accept_word("NULL"):
            self._fail("NULL after NOT")
        return False

    def _take_name(self) -> str:
        token = self._peek()
        if token.startswith("`"):
            token = token[1:-1].replace("``", "`")
        elif not token or token in "<>(),:" or token.startswith("'"):
            self._fail("the name of a field")
        self._next += 1
        return token

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _accept(self, token: str) -> bool:
        found = self._peek() == token
        self._next += found
        return found

    def _accept_word(self, word: str) -> bool:
        found = self._peek().upper() == word
        self._next += found
        return found

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            self._fail(f"'{token}'")

    def _fail(self, expected: str) -> NoReturn:
        self._fail_at(self._tokens[self._next][1] if self._next < len(self._tokens) else len(self._text), expected)

    def _fail_at(self, position: int, expected: str) -> NoReturn:
        found = repr(self._text[position : position + 20]) if position < len(self._text) else "the end"
        shown = self._text if len(self._text) <= 120 else self._text[:117] + "..."
        raise InvalidArgument(
            f"SQL type {shown!r} cannot be read: at character {position + 1} stands {found}, expected {expected}.",
            metadata={"position": str(position + 1)},
        )
