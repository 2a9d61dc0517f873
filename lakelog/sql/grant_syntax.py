"""GRANT, REVOKE and SHOW GRANTS: who may do what with a database or a table. Pure."""

from __future__ import annotations

from typing import Final

from lakelog.format.tables.grant import GrantLevel
from lakelog.sql.statements import GrantTo, Name, RevokeFrom, ShowGrants
from lakelog.sql.word_reader import WordReader

_GRANT: Final = "GRANT READER ON TABLE shop.orders TO 'ann'"
_LEVELS: Final = tuple(level.name for level in GrantLevel)


def parse_grant(reader: WordReader) -> GrantTo:
    """Reads what follows GRANT.

    Raises:
        InvalidArgument: It cannot be read; shows the place.
    """
    if reader.peek().word not in _LEVELS:
        reader.fail(f"GRANT gives one of the levels {', '.join(_LEVELS)}: {_GRANT}.")
    level = reader.take().word.lower()
    scope = _take_scope(reader)
    reader.expect("TO", then=f"It is followed by a caller's name: {_GRANT}.")
    caller = reader.take_text("The name of a caller")
    reader.expect_end("GRANT")
    return GrantTo(level, scope, caller)


def parse_revoke(reader: WordReader) -> RevokeFrom:
    """Reads what follows REVOKE.

    Raises:
        InvalidArgument: It cannot be read; shows the place.
    """
    if reader.peek().word in _LEVELS:
        reader.fail("REVOKE takes the whole grant back: REVOKE ALL ON TABLE shop.orders FROM 'ann'.")
    reader.accept("ALL")
    scope = _take_scope(reader)
    reader.expect("FROM", then="It is followed by a caller's name: REVOKE ALL ON TABLE shop.orders FROM 'ann'.")
    caller = reader.take_text("The name of a caller")
    reader.expect_end("REVOKE")
    return RevokeFrom(scope, caller)


def parse_show_grants(reader: WordReader) -> ShowGrants:
    """Reads what follows SHOW GRANTS.

    Raises:
        InvalidArgument: It cannot be read; shows the place.
    """
    scope = _take_scope(reader) if reader.peek().word == "ON" else None
    caller = reader.take_text("The name of a caller") if reader.accept("TO") else None
    reader.expect_end("SHOW GRANTS")
    return ShowGrants(scope, caller)


def _take_scope(reader: WordReader) -> Name | str:
    """A table or, as a text, a database."""
    reader.expect("ON", then="A grant is on DATABASE shop or on TABLE shop.orders.")
    if reader.accept("DATABASE") or reader.accept("SCHEMA"):
        return reader.take_identifier("a database")
    if reader.peek_words(2)[1] != ".":
        reader.accept("TABLE")
    return reader.take_name()
