"""Every RPC as every caller, over the wire: what becomes of it is what the table of privileges says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import Message

from lakelog.errors import LakelogError, PermissionDenied
from lakelog.format.jobs.work import Pipeline
from lakelog.format.tables.grant import NO_GRANT
from lakelog.serving.access import Role
from metastore.server.interceptor import _Call
from metastore.server.privileges.authorization import Authorization, Authorizer
from metastore.server.privileges.outcomes import CALLER_KINDS, CallerKind, Outcome, outcome_of
from metastore.server.privileges.rules import ShownTables
from metastore.server.privileges.table import PRIVILEGES
from tests.contract.grants.calls import CALLS
from tests.contract.grants.world import ELSEWHERE, KINDS, STRANGER, RawCaller, World, name_of, open_world

OURS = {name.rpartition("/")[2]: each for name, each in PRIVILEGES.items() if name.startswith("/lakelog.")}

LISTS = {
    "ListDatabases": lambda answer: {each.name for each in answer.databases},
    "ListTables": lambda answer: set(answer.names),
    "ListPipelines": lambda answer: {each.name for each in answer.pipelines},
    "ListJobs": lambda answer: {each.table for each in answer.jobs},
    "ListDroppedTables": lambda answer: {each.name.name for each in answer.tables},
    "ListGrants": lambda answer: {each.principal for each in answer.grants},
}
"""What is seen of lists of which callers see a part."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as opened:
        lease = opened.root.acquire_lease("pipeline/p", "root", 600_000)
        pipeline = Pipeline("p", str(opened.table.name), "kafka", "running", None, "", None, 1, 0, "")
        opened.root.report_pipeline(pipeline, lease.epoch)
        yield opened


@pytest.fixture(scope="module")
def callers(world: World) -> Iterator[dict[str, RawCaller]]:
    opened = {name_of(kind): RawCaller(world, name_of(kind)) for kind in KINDS}
    yield opened
    for each in opened.values():
        each.close()


def is_refused(error: LakelogError) -> bool:
    return isinstance(error, PermissionDenied) and error.reason in (NO_GRANT, PermissionDenied.default_reason)


def try_call(world: World, caller: RawCaller, method: str) -> bool:
    """Whether a caller passes the check of privileges; the world is then as it was."""
    try:
        caller.call(method, CALLS[method](world))
    except LakelogError as error:
        return not is_refused(error)
    if method == "DropTable":
        world.root.restore_table(world.spare.name)
    if method == "RestoreTable":
        world.root.drop_table(world.dropped.name)
    return True


def test_there_is_a_call_for_every_rpc() -> None:
    assert set(CALLS) == set(OURS)


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_what_becomes_of_every_call(world: World, callers: dict[str, RawCaller], kind: CallerKind) -> None:
    # Anyone who may write somewhere may use names that belong to no table.
    anywhere = {"RegisterWriter", "RenewAttempts"}
    differing = []
    for method, privilege in OURS.items():
        allowed = outcome_of(privilege, kind) is not Outcome.REFUSED or (kind is ELSEWHERE and method in anywhere)
        if try_call(world, callers[name_of(kind)], method) != allowed:
            differing.append(f"{method} must be {'allowed' if allowed else 'refused'}")
    assert differing == []


@pytest.mark.parametrize("method", LISTS)
def test_what_each_caller_sees_of_a_list(world: World, callers: dict[str, RawCaller], method: str) -> None:
    everything = {
        "ListDatabases": {"shop", "other"},
        "ListTables": {"orders", "spare"},
        "ListPipelines": {"p"},
        "ListJobs": {str(world.table.name), "shop.old"},
        "ListDroppedTables": {"old"},
    }
    for kind in CALLER_KINDS:
        outcome = outcome_of(OURS[method], kind)
        if outcome is Outcome.REFUSED:
            continue
        seen = LISTS[method](callers[name_of(kind)].call(method, CALLS[method](world)))
        if method == "ListGrants":
            assert seen <= {name_of(kind)}, kind.name
        elif outcome is Outcome.ALLOWED:
            assert seen == everything[method], kind.name
        else:
            is_shown = bool(kind.at_table or kind.at_database)
            assert seen == ((everything[method] - {"other"}) if is_shown else set()), kind.name


@pytest.mark.parametrize("asks", [False, True])
def test_a_caller_without_grants_gets_an_empty_list_without_a_query(
    world: World, callers: dict[str, RawCaller], monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    asked: list[str] = []
    answer = _Call._answer_allowed

    async def note(self: _Call, request: Message, context: Any) -> Any:
        asked.append(type(request).__name__)
        return await answer(self, request, context)

    monkeypatch.setattr(_Call, "_answer_allowed", note)
    if asks:
        # The control.
        monkeypatch.setattr(Authorization, "sees_nothing", False)
    filtered = [name for name, each in OURS.items() if each.shown and not isinstance(each.shown, ShownTables)]
    assert len(filtered) >= 6
    for method in filtered:
        empty = callers[name_of(STRANGER)].call(method, CALLS[method](world))
        # A looked-up overview of nothing still has the time.
        assert not empty.ListFields() or (asks and method == "GetOverview"), method
    assert len(asked) == (len(filtered) if asks else 0)
    # A caller with a grant has its part looked up.
    callers["reader-of-the-table"].call("ListDatabases", CALLS["ListDatabases"](world))
    assert "ListDatabasesRequest" in asked


def test_control_without_the_check_each_refused_call_is_allowed(
    world: World, callers: dict[str, RawCaller], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = [name for name, each in OURS.items() if each.takes_grants and name != "ListGrants"]
    refused = [name for name in refused if outcome_of(OURS[name], CALLER_KINDS[0]) is Outcome.REFUSED]
    assert len(refused) > 50
    monkeypatch.setattr(Authorizer, "authorization_of", lambda *_: None)
    stranger = callers[name_of(CALLER_KINDS[0])]
    assert [name for name in refused if not try_call(world, stranger, name)] == []


def test_a_role_counts_for_everything_and_a_grant_only_there() -> None:
    """The model itself: more right is never less."""
    for low, high in itertools.product(CALLER_KINDS, repeat=2):
        if low.role <= high.role and low.at_table <= high.at_table and low.at_database <= high.at_database:
            for name, privilege in OURS.items():
                assert not (
                    outcome_of(privilege, low) is not Outcome.REFUSED and outcome_of(privilege, high) is Outcome.REFUSED
                ), name
    assert all(kind.role is Role.USER or not kind.at_table for kind in CALLER_KINDS)
