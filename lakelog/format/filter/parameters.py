"""Values for the `:name` parameters of a filter or a statement: each becomes one constant of SQL. Pure.

A condition goes as text to tasks of Spark and to reader services, so values become text, too. SUBTLE: that is safe
because parameters are found among tokens, never inside texts, and because a constant is read again before it is used.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.filter.tokens import Source, Token, split_tokens

_KINDS: Final = "a str, int, float, Decimal, bool, bytes, date, datetime or None, or a list of such for IN"


def bind_parameters(source: Source, params: Mapping[str, object]) -> str:
    """Returns the text with a constant in place of each `:name`.

    A list is the values of IN, with or without parentheses: `id IN :ids`. None is NULL, to which nothing is equal.

    Args:
        source: A condition or a statement.
        params: A value for each name that the text has, and no other.

    Raises:
        InvalidArgument: A name has no value, a value has no name, or its type is not possible for a constant.
    """
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise InvalidArgument(
            f"params={params!r:.80} is no dict of values by name: give one such as {{'id': 5}} for :id.",
            metadata={"field": "params"},
        )
    tokens = split_tokens(source, with_hints=True)
    parts: list[str] = []
    end = 0
    used: set[str] = set()
    for place, name in _find_places(tokens):
        if name.text not in params:
            source.fail(name.start - 1, f"There is no value for :{name.text}. Give params={{'{name.text}': ...}}.")
        used.add(name.text)
        parts.append(source.text[end : name.start - 1])
        parts.append(_place_text(params[name.text], name.text, tokens, place))
        end = name.end
    unused = [name for name in params if name not in used]
    if unused:
        raise InvalidArgument(
            f"{source.failure}: it has no place for the value of {', '.join(f':{name:.80}' for name in unused[:20])}. "
            "Write the name with a colon where the value belongs, or leave it out of params.",
            reason="PARAMETER_UNUSED",
            metadata={"field": "params", "parameter": unused[0]},
        )
    return "".join([*parts, source.text[end:]])


def find_parameters(source: Source) -> frozenset[str]:
    """Returns the names of a text's `:name` parameters. Pure.

    Raises:
        InvalidArgument: Something in the text is no word.
    """
    return frozenset(name.text for _, name in _find_places(split_tokens(source, with_hints=True)))


def to_constant(value: object, name: str) -> str:
    """Returns a value as a constant of SQL, with a space on both sides.

    Args:
        value: The user's value; numpy's and pyarrow's scalars are accepted as well.
        name: The parameter, for messages.

    Raises:
        InvalidArgument: It is of no such type.
    """
    text = to_constant_text(_to_plain(value, name), name)
    return f" {text} "


def _find_places(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """The places of `:name`, by the index of the colon, and the names."""
    for place in range(len(tokens) - 1):
        colon, name = tokens[place], tokens[place + 1]
        if colon.word != ":" or name.kind != "name" or name.start != colon.end:
            continue
        if place and tokens[place - 1].word == ":" and tokens[place - 1].end == colon.start:
            continue  # `a::INT` is a cast.
        yield place, name


def _place_text(value: object, name: str, tokens: Sequence[Token], place: int) -> str:
    if isinstance(value, pa.Array | pa.ChunkedArray | np.ndarray):
        value = value.tolist()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
        return to_constant(value, name)
    if not value:
        raise InvalidArgument(
            f"The value of :{name} is an empty list, and SQL has no empty IN. Leave the condition out, or ask nothing.",
            reason="PARAMETER_INVALID",
            metadata={"field": "params", "parameter": name},
        )
    listed = ",".join(to_constant(each, name) for each in value)
    before, after = tokens[place - 1 : place], tokens[place + 2]
    in_parentheses = bool(before) and before[0].word in ("(", ",") and after.word in (")", ",")
    return listed if in_parentheses else f" ({listed}) "


def _to_plain(value: object, name: str) -> object:
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, np.datetime64):
        micros = value.astype("datetime64[us]")
        if micros != value and not np.isnat(value):
            raise _refusal(value, name, "it has parts of a microsecond")
        return micros.item()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dt.datetime) and value != value:
        return None  # pandas' NaT.
    return value


def to_constant_text(value: object, name: str) -> str:
    """A Python value as a constant of SQL. Pure.

    Raises:
        InvalidArgument: SQL has no such constant; names the parameter.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        # In parentheses, since two minus signs begin a comment.
        return str(value) if value >= 0 else f"({value})"
    if isinstance(value, float):
        text = f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
        return text if not text.startswith("-") else f"({text})"
    if isinstance(value, Decimal):
        return _decimal_text(value, name)
    if isinstance(value, str):
        return _quoted(value, name)
    if isinstance(value, bytes | bytearray):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return _timestamp_text(value, name)
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    raise _refusal(value, name, f"it is a {type(value).__name__}")


def _decimal_text(value: Decimal, name: str) -> str:
    if not value.is_finite():
        raise _refusal(value, name, "SQL has no such decimal")
    digits = f"{value:f}"
    scale = len(digits.partition(".")[2])
    precision = max(len(digits.replace(".", "").lstrip("-0")), scale, 1)
    if precision > 38:
        raise _refusal(value, name, "it has more than the 38 digits that a decimal can have")
    return f"CAST('{digits}' AS DECIMAL({precision}, {scale}))"


def _quoted(value: str, name: str) -> str:
    text = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    # Check that the text reads back to the given value, whatever it contains: otherwise it must not enter a statement.
    first, *rest = split_tokens(Source(text, longest=len(text)))
    if first.kind != "text" or first.text != value or len(rest) != 1:
        raise _refusal(value, name, "it cannot be written as a text of SQL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refusal(value, name, "it is no Unicode text") from None
    return text


def _timestamp_text(value: dt.datetime, name: str) -> str:
    if getattr(value, "nanosecond", 0):
        raise _refusal(value, name, "it has parts of a microsecond")
    if value.tzinfo is None:
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return f"TIMESTAMP '{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"


def _refusal(value: object, name: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"The value of :{name}, {value!r:.80}, cannot be used: {why}. Give {_KINDS}.",
        reason="PARAMETER_INVALID",
        metadata={"field": "params", "parameter": name},
    )
