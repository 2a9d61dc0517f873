"""Arguments that several commands take."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.errors import InvalidArgument
from lakelog.format.table import TableName


def parse_options(settings: Sequence[str], flag: str) -> dict[str, str]:
    """Reads `KEY=VALUE` texts. Pure.

    Raises:
        InvalidArgument: One has no `=`, or a key comes twice.
    """
    options: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InvalidArgument(f"{flag} {setting!r} is not of the form KEY=VALUE, for instance bucket=4.")
        if key in options:
            raise InvalidArgument(f"{flag} sets {key!r} twice; give it once.")
        options[key] = value.strip()
    return options


def split_names(text: str | None) -> list[str] | None:
    """Names apart from their commas; None stays None. Pure.

    Raises:
        InvalidArgument: A name is empty.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InvalidArgument(f"The list of columns {text!r} has an empty name. Write for instance id,name.")
    return names


def parse_table_name(text: str) -> TableName:
    """Reads `database.table`. Pure; whether such names are allowed, the metastore says.

    Raises:
        InvalidArgument: There is not exactly one dot between two names.
    """
    database, dot, name = text.partition(".")
    if not dot or not database or not name or "." in name:
        raise InvalidArgument(
            f"The table {text!r} is not named in full. Write DATABASE.TABLE, for instance shop.orders."
        )
    return TableName(database, name)
