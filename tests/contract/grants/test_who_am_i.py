"""Who the caller is, and what it may do: the same that the metastore then decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from lakelog.errors import InvalidArgument, LakelogError, PermissionDenied
from lakelog.format.tables.grant import CallerRole, GrantLevel, Identity, SignIn
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access, Caller, Role, SignedCaller, TokenEntry
from lakelog.storage.objects.stores import LocationStores
from metastore.grants.identity import Identities
from metastore.server.privileges.outcomes import CALLER_KINDS, CallerKind
from metastore.testing import InProcessMetastore
from tests.contract.grants.world import World, name_of, open_world
from tests.support.metastore.opening import open_memory


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as opened:
        yield opened


@pytest.mark.parametrize("kind", CALLER_KINDS, ids=lambda kind: kind.name)
def test_it_says_what_the_metastore_decides(world: World, kind: CallerKind) -> None:
    table, other = world.table.table_uuid, world.other.table_uuid
    caller = world.connect(name_of(kind))
    try:
        found = caller.who_am_i([table, other])
        assert (found.name, found.role.value, found.sign_in) == (name_of(kind), kind.role.name.lower(), SignIn.TOKEN)
        of_role = {Role.USER: 0, Role.READER: 1, Role.WRITER: 2, Role.ADMIN: 3}[kind.role]
        assert found.levels.get(table, 0) == max(of_role, kind.at_table, kind.at_database)
        assert found.levels.get(other, 0) == of_role
        for level, ask in (
            (GrantLevel.READER, lambda: caller.list_snapshots(table)),
            (GrantLevel.WRITER, lambda: caller.list_expired_files(table, 1)),
            (GrantLevel.OWNER, lambda: caller.list_grants("shop", "orders")),
        ):
            assert found.may(level, table) == is_allowed(ask)
        assert not found.may(GrantLevel.READER, "f" * 32)
    finally:
        caller.close()


def is_allowed(ask: object) -> bool:
    assert callable(ask)
    try:
        ask()
    except PermissionDenied:
        return False
    return True


def test_a_table_of_others_looks_like_none(world: World) -> None:
    caller = world.connect("reader-of-the-table")
    try:
        assert caller.who_am_i([world.other.table_uuid]) == caller.who_am_i(["f" * 32]) == caller.who_am_i()
    finally:
        caller.close()


def test_a_grant_that_is_taken_back_shows(world: World) -> None:
    name = "no-grant"
    caller = world.connect(name)
    try:
        uuid = world.table.table_uuid
        assert caller.who_am_i([uuid]).levels == {}
        world.root.grant("shop", "orders", GrantLevel.WRITER, name)
        assert caller.who_am_i([uuid]).levels == {uuid: GrantLevel.WRITER}
        world.root.revoke("shop", "orders", name)
        assert caller.who_am_i([uuid]).levels == {}
    finally:
        caller.close()


@pytest.mark.parametrize("uuids", [["nope"], ["'; --" * 8], ["0" * 32] * 2, [f"{n:032x}" for n in range(1001)]])
def test_what_names_no_tables_is_refused(world: World, uuids: list[str]) -> None:
    with pytest.raises(InvalidArgument):
        world.root.who_am_i(uuids)


def test_an_unknown_caller_learns_nothing(world: World) -> None:
    caller = world.connect("someone-else")
    try:
        with pytest.raises(LakelogError) as error:
            caller.who_am_i()
        assert error.value.reason == "UNAUTHENTICATED"
    finally:
        caller.close()


def test_without_identification_everyone_is_an_admin_without_a_name(request: pytest.FixtureRequest) -> None:
    with open_memory(request) as metastore:
        assert metastore.who_am_i() == Identity("", CallerRole.ADMIN, SignIn.NONE)
        assert metastore.who_am_i(["0" * 32]).levels == {"0" * 32: GrantLevel.OWNER}


class Signed:
    """Knows one token, for a while."""

    def recall(self, token: str) -> SignedCaller | None:
        return None

    def recognize(self, token: str, address: str = "") -> SignedCaller:
        return SignedCaller("ann", None, 1_700_000_000.5)


def test_each_way_to_sign_in_is_returned(request: pytest.FixtureRequest) -> None:
    digest = hashlib.sha256(b"a token of the file").digest()
    access = Access(
        tokens=(TokenEntry(Caller("job", Role.WRITER), digest),),
        certificates={"node": Role.READER},
        signed_tokens=Signed(),
    )
    any_certificate = Access(any_certificate=True)
    with open_memory(request) as opened:
        metastore: InProcessMetastore = opened  # type: ignore[assignment]
        identities: Identities = metastore.use_cases.identities

        def find(caller: Caller) -> tuple[str, str, str, int]:
            found = metastore.run(identities.who_am_i(caller=caller))
            return found.name, found.role.value, found.sign_in.value, found.until_ms

        assert find(access.recognize("Bearer a token of the file", None)) == ("job", "writer", "token", 0)
        assert find(access.recognize("Bearer a.b.c", None)) == ("signed:ann", "user", "signed token", 1_700_000_000_500)
        assert find(access.recognize(None, "node")) == ("node", "reader", "certificate", 0)
        assert find(any_certificate.recognize(None, "node")) == ("node", "admin", "certificate", 0)


def test_the_sdk_names_tables(world: World) -> None:
    caller = world.connect("writer-of-the-table")
    try:
        catalog = Catalog(caller, LocationStores())
        assert catalog.whoami(["shop.orders"]).levels == {"shop.orders": GrantLevel.WRITER}
        assert catalog.whoami().name == "writer-of-the-table"
        with pytest.raises(PermissionDenied):
            catalog.whoami(["other.orders"])
    finally:
        caller.close()
