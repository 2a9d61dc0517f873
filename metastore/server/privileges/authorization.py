"""Lets a call through by grants, if the role of its caller does not suffice: before it runs, while it sends, after it.

Invariants:

1. A call whose role suffices asks for nothing and waits for nothing.
2. No other call reaches a use case before all that its request names has been checked.
3. A caller without a right gets one and the same refusal, whether or not a thing exists. So an error of the use case
   that says that something does not exist is only passed on if the right is still there: a grant that goes with its
   database must not leave an answer with the names of others.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from lakelog.errors import AlreadyExists, LakelogError, NotFound, PermissionDenied
from lakelog.format.tables.grant import GrantLevel
from lakelog.rpc.v1 import catalog_pb2, snapshots_pb2
from lakelog.serving.access import Caller, Role

from ...grants.checking import GrantChecks
from ...grants.needs import HeldGrants, Need, NeedKind, no_grant
from ...logs.topic_life import TOPIC_IN_USE
from ...store.grants import Readable
from ..callers import ShowError
from ..edge.request_limits import served_methods
from ..edge.sliced_requests import SlicedRequest
from .reading import read_needs
from .rules import (
    OfCaller,
    OfOwnGrant,
    Privilege,
    ShownByUseCase,
    ShownDatabases,
    ShownNames,
    ShownOverview,
    ShownTables,
    ShownUuids,
)
from .shown_overview import show_overview
from .table import PRIVILEGES

_ANSWERS: Final = {
    f"/{method.containing_service.full_name}/{method.name}": GetMessageClass(method.output_type)
    for method in served_methods()
}
"""The type of the answer of each RPC."""

_COMMIT: Final = snapshots_pb2.CommitRequest.DESCRIPTOR


class Authorizer:
    """Judges calls by the table of privileges. Runs on one event loop.

    Args:
        checks: Finds out what the grants of a caller allow.
    """

    def __init__(self, checks: GrantChecks) -> None:
        self._checks = checks

    def is_writer(self, caller: Caller) -> bool:
        """Whether a caller writes by its role, or by a grant that was looked up a moment ago. Asks for nothing."""
        return caller.role >= Role.WRITER or self._checks.known_level(caller.name) >= GrantLevel.WRITER

    def authorization_of(self, method: str, caller: Caller | None) -> Authorization | None:
        """What a call has to pass; None: the role of its caller suffices for everything, or it is open to all.

        Args:
            method: The full name.
            caller: The caller; None: no one knows it.

        Raises:
            PermissionDenied: No one may call it, or only callers that are known.
        """
        privilege = PRIVILEGES.get(method)
        needed = Role.ADMIN if privilege is None else privilege.role
        if needed is None:
            return None
        if privilege is None or caller is None:
            raise PermissionDenied(f"{method} is open to no role.", metadata={"method": method})
        if caller.role >= needed:
            return None
        return Authorization(self._checks, method, privilege, caller)


class Authorization:
    """The checks of one call of a caller whose role does not suffice.

    Args:
        checks: Finds out what the grants of a caller allow.
        method: The full name of the method.
        privilege: What it needs.
        caller: The caller.
    """

    def __init__(self, checks: GrantChecks, method: str, privilege: Privilege, caller: Caller) -> None:
        self._checks = checks
        self._full_method = method
        self._method = method.rpartition("/")[2]
        self._privilege = privilege
        self._caller = caller
        self._needs: list[Need] = []
        self._held = HeldGrants()
        self._database = ""

    async def check_any(self) -> None:
        """Refuses a caller without any grant that could help, before its request is received.

        Raises:
            PermissionDenied: With the reason NO_GRANT.
            Unavailable: The store is lost.
        """
        levels = [
            GrantLevel.READER if isinstance(rule, OfOwnGrant) else rule.level
            for rule in self._privilege.rules
            if not isinstance(rule, OfCaller)
        ]
        if levels and self._privilege.shown is None and (await self._load()).highest < min(levels):
            raise self._refuse([Need(NeedKind.ANYWHERE, min(levels))])

    async def check(self, request: Message | SlicedRequest[Any]) -> None:
        """Checks all that a request names. The calls after it are about this request.

        Raises:
            PermissionDenied: With the reason NO_GRANT.
            Unavailable: The store is lost.
        """
        message = request.message if isinstance(request, SlicedRequest) else request
        privilege = self._privilege
        if message.DESCRIPTOR is _COMMIT and self._method == "CommitStream":
            # Of a large commit on a stream only the commit itself is at hand, and the rules for it are the same.
            privilege = PRIVILEGES["/lakelog.rpc.v1.SnapshotService/Commit"]
        self._needs = read_needs(privilege, message, self._caller)
        shown = self._privilege.shown
        self._database = str(getattr(message, shown.database)) if isinstance(shown, ShownTables) else ""
        await self._check(await self._load())

    async def check_message(self, message: Message | SlicedRequest[Any]) -> ShowError:
        """Checks one message of a stream of them, and returns what the caller may see of its error.

        Raises:
            PermissionDenied: With the reason NO_GRANT.
            Unavailable: The store is lost.
        """
        # Later messages are checked while this one is under way.
        of_message = Authorization(self._checks, self._full_method, self._privilege, self._caller)
        await of_message.check(message)
        return of_message.show_error

    async def show_error(self, error: Exception) -> Exception:
        """What the caller may see of an error: the refusal instead, if it has lost the right meanwhile."""
        if isinstance(error, NotFound):
            try:
                await self.check_again()
            except LakelogError as refused:
                return refused
        return self.hide(error) if isinstance(error, AlreadyExists) else error

    @property
    def sees_nothing(self) -> bool:
        """Whether the caller has no grant, and the answer is a list of which it sees only what it has grants on."""
        return self._privilege.shown is not None and not self._held.grants

    @property
    def readable(self) -> Readable:
        """The tables that the caller may read, as of the last check."""
        return Readable(frozenset(self._held.databases), frozenset(self._held.tables))

    def answer_nothing(self) -> Message:
        """The answer to a caller that sees nothing."""
        return _ANSWERS[self._full_method]()

    async def check_still(self) -> None:
        """Checks the last request again, if the grants of the caller may have changed since.

        Raises:
            PermissionDenied: With the reason NO_GRANT.
            Unavailable: The store is lost.
        """
        held = await self._load()
        if held is not self._held:
            await self._check(held)

    async def check_again(self) -> None:
        """Checks the last request again, with what is stored now.

        Raises:
            PermissionDenied: With the reason NO_GRANT.
            Unavailable: The store is lost.
        """
        self._checks.forget_caller(self._caller.name, self._needs)
        await self._check(await self._load())

    def hide(self, error: AlreadyExists) -> AlreadyExists:
        """What the caller may see of an error that says that something is taken: not by which table of others."""
        table = error.metadata.get("table", "")
        if error.reason == TOPIC_IN_USE and not self._held.may_see(*_split(table)):
            topic = error.metadata["topic"]
            return AlreadyExists(
                f"The topic {topic} is the log of another table already. Give another 'kafka.topic', or leave it out.",
                reason=error.reason,
                metadata={"topic": topic},
            )
        metadata = {key: value for key, value in error.metadata.items() if key != "table_uuid"}
        return AlreadyExists(error.message, reason=error.reason, metadata=metadata)

    async def send(self, responses: AsyncIterator[Message]) -> AsyncGenerator[Message]:
        """The answers of a stream, each only as long as the caller has the right.

        Raises:
            PermissionDenied: With the reason NO_GRANT.
            Unavailable: The store is lost.
        """
        async with aclosing(responses) as stream:  # type: ignore[type-var]
            try:
                async for response in stream:
                    await self.check_still()
                    yield response
            except NotFound:
                await self.check_again()
                raise

    async def show(self, response: Message) -> Message:
        """Returns what the caller may see of an answer.

        Raises:
            Unavailable: The store is lost.
        """
        shown, held = self._privilege.shown, self._held
        if shown is None or isinstance(shown, ShownByUseCase):
            return response
        if isinstance(shown, ShownOverview):
            return show_overview(response, await self._checks.sum_tables(held), held)
        items = getattr(response, shown.items)
        match shown:
            case ShownUuids(_, field):
                readable = await self._checks.find_readable(held, {getattr(item, field) for item in items})
                kept = [item for item in items if getattr(item, field) in readable]
            case ShownNames(_, field):
                kept = [item for item in items if held.may_see(*_split(getattr(item, field)))]
            case ShownTables():
                kept = [name for name in items if held.may_see(self._database, name)]
            case ShownDatabases():
                sizes = await self._checks.measure_tables(held)
                seen = held.databases.keys() | sizes.keys()
                kept = [_show_database(item, held, sizes) for item in items if item.name in seen]
        answer = type(response)()
        getattr(answer, shown.items).extend(kept)
        return answer

    async def _load(self) -> HeldGrants:
        return await self._checks.load(self._caller.name)

    def _refuse(self, lacking: Sequence[Need]) -> PermissionDenied:
        role = self._privilege.role
        assert role is not None, "what is open to all has no authorization"
        return no_grant(self._caller.name, self._method, lacking[0], role.name.lower())

    async def _check(self, held: HeldGrants) -> None:
        lacking = await self._checks.find_lacking(held, self._needs)
        if isinstance(self._privilege.shown, ShownTables) and not held.may_see_in(self._database):
            lacking = [Need(NeedKind.DATABASE, GrantLevel.READER, self._database)]
        if lacking:
            raise self._refuse(lacking)
        self._held = held


def _split(name: str) -> tuple[str, str]:
    database, _, table = name.partition(".")
    return database, table


def _show_database(found: catalog_pb2.Database, held: HeldGrants, sizes: dict[str, list[int]]) -> catalog_pb2.Database:
    """A database; one that the caller may not read as if it had only the tables that the caller may read."""
    if found.name in held.databases:
        return found
    seen = sizes[found.name]
    return catalog_pb2.Database(name=found.name, table_count=len(seen), size_bytes=sum(seen))
