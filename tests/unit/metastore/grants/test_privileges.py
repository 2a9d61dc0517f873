"""The table of privileges is complete: every RPC, and every field of a request that names what a grant can be on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from google.protobuf.descriptor import Descriptor

from lakelog.rpc.v1 import catalog_pb2
from lakelog.serving.access import Role
from metastore.server.access import NEEDED_ROLES
from metastore.server.edge.request_limits import served_methods
from metastore.server.privileges.rules import (
    OfCaller,
    Privilege,
    ShownByUseCase,
    ShownNames,
    ShownOverview,
    ShownTables,
    ShownUuids,
)
from metastore.server.privileges.table import PRIVILEGES

METHODS = {f"/{method.containing_service.full_name}/{method.name}": method for method in served_methods()}
WITH_GRANTS = {name: each for name, each in PRIVILEGES.items() if each.takes_grants}

NAMES_SOMETHING = re.compile(r"(^|_)(name|table|tables|database|job|attempt|lease|consumer|pipeline|principal)(_|$)")

HARMLESS = {
    "CreateTable.name": "the table does not exist yet",
    "StageAttempt.attempt_id": "only the caller's own attempt (decision 21)",
    "Commit.attempt_id": "only the caller's own attempt (decision 21)",
    "CommitStream.commit.attempt_id": "only the caller's own attempt (decision 21)",
    "AttachChangelogs.attempt_id": "only the caller's own attempt (decision 21)",
    "ListDroppedTables.database": "the answer is filtered",
    "OpenConsumer.consumer_id": "of the tables that it names",
    "AdvanceConsumer.consumer_id": "of the tables that it names",
    "RenewConsumer.consumer_id": "of the tables that it names",
    "ResetConsumer.consumer_id": "of the table that it names",
    "DeleteConsumer.consumer_id": "of the table that it names",
    "AbortAttempts.attempt_ids": "only those of the table that it names",
    "ForgetAttempts.attempt_ids": "only those of the table that it names",
    "FindAttempts.attempt_ids": "only those of the table that it names",
    "RenewAttempts.attempt_ids": "it passes over attempts of other callers",
    "ListJobs.job_ids": "the answer is filtered",
    "ListJobRuns.job_id": "the answer is filtered",
    "Grant.principal": "an owner grants to any caller",
    "CreateTag.name": "of the table that it names",
    "DeleteTag.name": "of the table that it names",
}
"""Fields that name something and that the table of privileges need not look at, each with the reason."""


def list_paths(message: Descriptor, prefix: str = "", above: tuple[Descriptor, ...] = ()) -> Iterator[str]:
    """All fields of a request, as paths. A table's name counts as one field."""
    if message in above:
        return
    for field in message.fields:
        path = f"{prefix}{field.name}"
        yield path
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            yield from list_paths(field.message_type, f"{path}.", (*above, message))


def find_unseen(method: str, privilege: Privilege) -> list[str]:
    """The fields of a method's request that name something, and that its privilege does not look at."""
    request = METHODS[method].input_type
    table_name = catalog_pb2.TableName.DESCRIPTOR
    named = [
        path
        for path in list_paths(request)
        if NAMES_SOMETHING.search(path.rpartition(".")[2])
        # A field with fields of its own names nothing by itself, unless it is a table's name.
        and not any(other.startswith(f"{path}.") for other in list_paths(request))
    ]
    looked_at = privilege.fields | {f"{field}.{part.name}" for field in privilege.fields for part in table_name.fields}
    short = method.rpartition("/")[2]
    return [path for path in named if path not in looked_at and f"{short}.{path}" not in HARMLESS]


def test_every_rpc_has_privileges_and_every_entry_an_rpc() -> None:
    assert set(PRIVILEGES) == set(METHODS) == set(NEEDED_ROLES)


def test_only_probes_are_open_to_callers_that_no_one_knows() -> None:
    assert {method.split("/")[1] for method, each in PRIVILEGES.items() if each.role is None} == {
        "grpc.health.v1.Health"
    }


def test_what_has_an_effect_needs_more_than_a_reader_and_what_has_none_does_not() -> None:
    for method, each in PRIVILEGES.items():
        if not any(isinstance(rule, OfCaller) for rule in each.rules):
            assert each.has_effect == (each.role not in (None, Role.USER, Role.READER)), method


@pytest.mark.parametrize("method", WITH_GRANTS)
def test_privileges_look_at_every_field_that_names_something(method: str) -> None:
    assert find_unseen(method, PRIVILEGES[method]) == []


@pytest.mark.parametrize("method", WITH_GRANTS)
def test_privileges_look_only_at_fields_that_exist(method: str) -> None:
    paths = set(list_paths(METHODS[method].input_type))
    assert PRIVILEGES[method].fields <= paths
    answer = METHODS[method].output_type
    match PRIVILEGES[method].shown:
        case ShownUuids(items, field) | ShownNames(items, field):
            entry = answer.fields_by_name[items].message_type
            assert entry is not None
            assert field in entry.fields_by_name
        case ShownTables(_, items) | ShownByUseCase(items):
            assert items in answer.fields_by_name


def test_harmless_fields_exist_and_nothing_looks_at_them() -> None:
    for name in HARMLESS:
        short, _, path = name.partition(".")
        (method,) = (each for each in METHODS if each.endswith(f"/{short}"))
        assert path in set(list_paths(METHODS[method].input_type)), name
        assert path not in PRIVILEGES[method].fields, name


@pytest.mark.parametrize(
    ("method", "unseen"),
    [
        (method, field)
        for method, each in WITH_GRANTS.items()
        for rule in each.rules
        for field in sorted(rule.fields)
        if NAMES_SOMETHING.search(field.rpartition(".")[2])
    ],
)
def test_control_a_rule_that_is_missing_is_found(method: str, unseen: str) -> None:
    privilege = PRIVILEGES[method]
    left = tuple(rule for rule in privilege.rules if unseen not in rule.fields)
    found = find_unseen(method, replace(privilege, rules=left))
    assert any(path == unseen or path.startswith(f"{unseen}.") for path in found)


def test_a_commit_on_a_stream_needs_what_a_commit_needs() -> None:
    commit, stream = (PRIVILEGES[f"/lakelog.rpc.v1.SnapshotService/{name}"] for name in ("Commit", "CommitStream"))
    assert stream.fields == {f"commit.{field}" for field in commit.fields}
    levels = [[getattr(rule, "level", None) for rule in each.rules] for each in (commit, stream)]
    assert levels[0] == levels[1]


def test_a_list_that_is_shown_in_part_is_all_of_the_answer() -> None:
    for method, each in WITH_GRANTS.items():
        # Of the overview each field is made anew.
        # What a use case leaves out, it also leaves out of the rest.
        if each.shown is not None and not isinstance(each.shown, ShownOverview | ShownByUseCase):
            assert [field.name for field in METHODS[method].output_type.fields] == [each.shown.items], method
