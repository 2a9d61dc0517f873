"""The request for a subscription, and the place of a reader that resumes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakelog.arguments import to_option_texts
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableName
from lakelog.options.declared.streams import CONSUMER_ID, SCAN_MODE
from lakelog.options.option import Option
from lakelog.options.value_types import Choice
from lakelog.reads.reading import to_names


@dataclass(frozen=True)
class StreamRequest:
    """What to show.

    Args:
        options: Options of subscriptions, by key; not yet checked.
        columns: Names by table; tables that are missing show all.
        filters: SQL conditions by table.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    filters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ResumePoint:
    """The place of a reader in a table.

    Args:
        table_uuid: The table.
        snapshot_id: The last snapshot that it has completely; 0: none. With `from_state`: the one whose rows it is
            being shown.
        snapshot_uuid: Its uuid; empty: not checked.
        from_state: Whether it does not yet have all initial rows.
        received_rows: How many rows it already has of what comes next.
        epoch: Its consumer's epoch; 0: it has none.
        schema_id: The version of the table's schema whose columns it is being shown; None: the present one.
    """

    table_uuid: str
    snapshot_id: int
    snapshot_uuid: str = ""
    from_state: bool = False
    received_rows: int = 0
    epoch: int = 0
    schema_id: int | None = None


def to_request(
    *,
    scan_mode: str | None,
    consumer_id: str | None,
    columns: Mapping[str, Sequence[str]],
    filters: Mapping[str, str],
    options: Mapping[str, Any] | None,
) -> StreamRequest:
    """Combines the arguments of `subscribe`. Pure.

    Raises:
        InvalidArgument: One is not a text, or two say the same.
    """
    given = to_option_texts({} if options is None else options)
    for option, name, value in ((SCAN_MODE, "scan_mode", scan_mode), (CONSUMER_ID, "consumer_id", consumer_id)):
        _join(given, option, name, value)
    return StreamRequest(given, {table: tuple(to_names(names)) for table, names in columns.items()}, dict(filters))


def check_together(names: Sequence[TableName], by_table: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Checks the tables of one subscription, and the arguments by table.

    Raises:
        InvalidArgument: There is no table or one twice, or an argument names another table.
    """
    texts = [str(name) for name in names]
    if not texts:
        raise InvalidArgument(
            "tables is empty. Name at least one, for instance ['shop.orders'].", metadata={"field": "tables"}
        )
    twice = sorted({text for text in texts if texts.count(text) > 1})
    if twice:
        raise InvalidArgument(
            f"tables names {', '.join(twice)} twice. Name each table once.", metadata={"field": "tables"}
        )
    for field_name, values in by_table.items():
        if values is not None and not isinstance(values, Mapping):
            raise InvalidArgument(
                f"{field_name}={values!r:.80} does not say of which table. Give it by table, for instance "
                f"{{'{texts[0]}': ...}}.",
                metadata={"field": field_name},
            )
        for other in values or ():
            if other not in texts:
                raise InvalidArgument(
                    f"{field_name} names {other!r:.80}, which is not subscribed to: {', '.join(texts)}.",
                    metadata={"field": field_name},
                )


def _join(given: dict[str, str], option: Option[Any], name: str, value: str | None) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        remedy = option.type.remedy if isinstance(option.type, Choice) else "Give one in quotes, for instance 'reports'"
        raise InvalidArgument(f"{name}={value!r:.80} is no text. {remedy}.", metadata={"field": name})
    if option.key in given:
        raise InvalidArgument(
            f"{name}= and option '{option.key}' say the same. Give one of them.",
            reason="CONTRADICTING_OPTIONS",
            metadata={"option": name, "other_option": option.key},
        )
    given[option.key] = value
