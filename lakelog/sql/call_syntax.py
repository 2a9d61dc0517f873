"""CALL: a procedure's name and its arguments as they were written. Pure."""

from __future__ import annotations

from lakelog.sql.statements import Call, CallArgument
from lakelog.sql.word_reader import WordReader

_EXAMPLE = "CALL sys.compact(table => 'shop.orders')"


def parse_call(reader: WordReader) -> Call:
    """Read what follows CALL.

    Raises:
        InvalidArgument: It cannot be read; shows the place.
    """
    start = reader.peek().start
    schema = reader.take_identifier("a procedure")
    if not reader.accept("."):
        reader.fail(f"Procedures are in the schema sys: {_EXAMPLE}.")
    if schema.casefold() != "sys":
        reader.source.fail(start, f"Procedures are in the schema sys, not in '{schema[:80]}': {_EXAMPLE}.")
    name_at = reader.peek().start
    name = reader.take_identifier("a procedure")
    reader.expect("(", then=f"The arguments of a procedure are written in parentheses: {_EXAMPLE}.")
    arguments: list[CallArgument] = []
    while not reader.accept(")"):
        if arguments:
            reader.expect(",", then="The arguments of a procedure are separated by commas.")
        arguments.append(_take_argument(reader, arguments))
    reader.expect_end("CALL")
    return Call(reader.source, name, name_at, tuple(arguments))


def _take_argument(reader: WordReader, before: list[CallArgument]) -> CallArgument:
    start, name = reader.peek().start, ""
    if reader.peek().kind in ("name", "quoted") and reader.peek_words(3)[1:] == ("=", ">"):
        name = reader.take().text
        reader.expect("=", ">")
    elif before and before[-1].name:
        reader.fail("After an argument with a name all need names, as in table => 'shop.orders'.")
    return CallArgument(name, reader.take_value(), start)
