"""What two versions of a schema differ in. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ...page import Column, Listing

Columns = Sequence[Mapping[str, Any]]
"""The rows of one version in `$schemas`."""

_PROPERTIES: Final = (
    ("column", "renamed"),
    ("type", "type"),
    ("nullable", "can be NULL"),
    ("default", "default"),
    ("comment", "comment"),
)
_CHANGES: Final = (
    Column("column", "Column", "code"),
    Column("change", "Change"),
    Column("before", "Before", "code"),
    Column("after", "After", "code"),
)


def list_changes(before: Columns, after: Columns, empty: str) -> Listing:
    """The differences as a listing."""
    return Listing("changes", "Differences of the schema", _CHANGES, list(find_changes(before, after)), empty)


def find_changes(before: Columns, after: Columns) -> Iterator[dict[str, Any]]:
    """The differences, column by column; a column is the same one as long as it has its id."""
    old = {each["field_id"]: each for each in before}
    new = {each["field_id"]: each for each in after}
    for field_id, each in new.items():
        if field_id not in old:
            yield _change(each["column"], "added", None, each["type"])
    for field_id, each in old.items():
        if field_id not in new:
            yield _change(each["column"], "dropped", each["type"], None)
    for field_id, each in new.items():
        earlier = old.get(field_id)
        if earlier is not None:
            for key, change in _PROPERTIES:
                if earlier[key] != each[key]:
                    yield _change(each["column"], change, earlier[key], each[key])
    order = [field_id for field_id in old if field_id in new]
    new_order = [field_id for field_id in new if field_id in old]
    if order != new_order:
        yield _change("", "order", *(", ".join(new[each]["column"] for each in ids) for ids in (order, new_order)))


def say_changes(before: Columns, after: Columns) -> str:
    """The differences in one line."""
    words = [f"{each['change']} {each['column']}".strip() for each in find_changes(before, after)]
    return ", ".join(words[:8]) + (f", and {len(words) - 8} more" if len(words) > 8 else "")


def _change(column: str, change: str, before: Any, after: Any) -> dict[str, Any]:
    return {"column": column or None, "change": change, "before": before, "after": after}
