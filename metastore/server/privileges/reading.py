"""Reads from a request what its caller needs, by the table of privileges. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from lakelog.format.log.state import to_publisher_lease
from lakelog.serving.access import Caller

from ...grants.needs import Need, NeedKind
from .rules import (
    READER,
    Anywhere,
    FullTableName,
    OfAttempt,
    OfCaller,
    OfDropped,
    OfJob,
    OfLease,
    OfOwnGrant,
    OfPipeline,
    OfPipelineName,
    Privilege,
    Rule,
    ScopeName,
    TableUuids,
)

_PUBLISHER: Final = to_publisher_lease("")
_PIPELINE: Final = "pipeline/"


def read_needs(privilege: Privilege, request: Message, caller: Caller) -> list[Need]:
    """What a caller needs for a request, beside what it sees of the answer.

    Nothing named is nothing allowed: if the rules find nothing in the request, and the answer is no list of which only
    a part is shown, grants do not allow it.

    Args:
        privilege: The privilege of the request's method.
        request: The request.
        caller: Its caller.
    """
    needs: dict[Need, None] = {}
    is_about_itself = False
    for rule in privilege.rules:
        found = list(_read(rule, request, caller))
        if isinstance(rule, OfCaller) and not found:
            named = _texts(request, rule.principal)
            is_about_itself = named in ([""], [caller.name])
        needs.update(dict.fromkeys(found))
    if not needs and privilege.shown is None and not is_about_itself:
        return [Need(NeedKind.NEVER, READER, "names no table here, and without one it is about all of them")]
    return list(needs)


def _read(rule: Rule, request: Message, caller: Caller) -> Iterator[Need]:
    match rule:
        case TableUuids(field, level, may_be_empty):
            found = [uuid for uuid in _texts(request, field) if uuid or not may_be_empty]
            yield from (Need(NeedKind.TABLE, level, uuid) for uuid in found)
            if not found and not may_be_empty:
                yield Need(NeedKind.NEVER, level, "names no table here, and without one it is about all of them")
        case ScopeName(database, table, level):
            yield from _of_scope(request, database, table, level)
        case FullTableName(field, level):
            for name in _texts(request, field):
                of_database, _, of_table = name.partition(".")
                yield Need(NeedKind.NAME, level, of_database, of_table)
        case OfJob(field, level, may_be_empty):
            numbers = [number for number in _values(request, field) if number or not may_be_empty]
            yield from (Need(NeedKind.JOB, level, str(number)) for number in numbers)
        case OfAttempt(field, level):
            yield from (Need(NeedKind.ATTEMPT, level, each) for each in _texts(request, field))
        case OfPipeline(field, level):
            yield from (Need(NeedKind.PIPELINE, level, each) for each in _texts(request, field))
        case OfPipelineName(field, level):
            yield from (Need(NeedKind.PIPELINE_NAME, level, each) for each in _texts(request, field))
        case OfLease(field, level):
            yield from (_of_lease(name, rule) for name in _texts(request, field))
        case OfDropped():
            yield from _of_dropped(rule, request)
        case Anywhere(level):
            yield Need(NeedKind.ANYWHERE, level)
        case OfOwnGrant(principal, database, table, table_uuid, level):
            is_own = _texts(request, principal) == [caller.name]
            yield from _of_scope_or_uuid(request, database, table, table_uuid, READER if is_own else level)
        case OfCaller(_, database, table, table_uuid, level):
            if any(text for each in (database, table, table_uuid) for text in _texts(request, each)):
                yield from _of_scope_or_uuid(request, database, table, table_uuid, level)


def _of_scope_or_uuid(request: Message, database: str, table: str, table_uuid: str, level: Any) -> Iterator[Need]:
    uuids = [uuid for uuid in _texts(request, table_uuid) if uuid]
    yield from (Need(NeedKind.TABLE, level, uuid) for uuid in uuids)
    # A request that names both is refused later, and needs both until then.
    if not uuids or any(_texts(request, database)) or any(_texts(request, table)):
        yield from _of_scope(request, database, table, level)


def _of_scope(request: Message, database: str, table: str, level: Any) -> Iterator[Need]:
    databases, tables = _texts(request, database), _texts(request, table) if table else [""]
    for of_database, of_table in zip(databases, tables, strict=True):
        kind = NeedKind.NAME if of_table else NeedKind.DATABASE
        yield Need(kind, level, of_database, of_table)


def _of_lease(name: str, rule: OfLease) -> Need:
    if name.startswith(_PUBLISHER):
        return Need(NeedKind.TABLE, rule.level, name.removeprefix(_PUBLISHER))
    if name.startswith(_PIPELINE):
        return Need(NeedKind.PIPELINE_NAME, rule.level, name.removeprefix(_PIPELINE))
    return Need(NeedKind.NEVER, rule.level, f"names the lease {name[:100]!r}, which belongs to no table")


def _of_dropped(rule: OfDropped, request: Message) -> Iterator[Need]:
    names = _values(request, rule.name)
    if not names:
        yield Need(NeedKind.NEVER, rule.level, "names no table")
        return
    (name,), (uuid,) = names, _texts(request, rule.table_uuid)
    new = next(iter(_values(request, rule.new_name)), name)
    yield Need(NeedKind.DROPPED, rule.level, name.database, name.name, uuid, new.database)
    if new != name:
        yield Need(NeedKind.DATABASE, rule.level, new.database)


def _texts(request: Message, path: str) -> list[str]:
    return [str(value) for value in _values(request, path)]


def _values(message: Message, path: str) -> list[Any]:
    """The values of a field, through repeated messages; none of a message that is absent."""
    values: list[Any] = [message]
    for name in path.split("."):
        is_repeated, has_presence = _form(values[0].DESCRIPTOR, name) if values else (False, False)
        if is_repeated:
            values = [each for value in values for each in getattr(value, name)]
        else:
            values = [getattr(value, name) for value in values if not has_presence or value.HasField(name)]
    return values


@cache
def _form(descriptor: Descriptor, name: str) -> tuple[bool, bool]:
    field = descriptor.fields_by_name[name]
    return field.is_repeated, field.has_presence
