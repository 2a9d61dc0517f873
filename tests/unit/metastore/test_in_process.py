"""The protocol over the use cases: a call is looked up by its name, where no type checker sees whether it fits."""

from __future__ import annotations

import inspect

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from metastore.jobs.leases import Leases
from metastore.memory.store import MemoryStore
from metastore.testing import InProcessMetastore, find_methods
from metastore.use_cases import UseCases


@pytest.fixture
def use_cases() -> UseCases:
    return UseCases(MemoryStore(SystemClock()), "file:///w")


def test_methods_take_and_return_what_the_protocol_says(use_cases: UseCases) -> None:
    found = find_methods(use_cases)
    assert {"commit", "plan", "watch", "create_table", "list_logs", "describe_queue"} <= set(found)
    for name, method in found.items():
        promised, given = inspect.signature(getattr(Metastore, name)), inspect.signature(method)
        parameters = [each for each in promised.parameters.values() if each.name != "self"]
        # Who waits for a job over the wire may go away; the server, not the caller, says who asks.
        of_call = ("gone", "check_right", "by", "readable", "caller")
        assert [each for each in given.parameters.values() if each.name not in of_call] == parameters, name
        if name not in ("plan", "watch"):
            assert given.return_annotation == promised.return_annotation, name


def test_each_name_is_that_of_one_use_case(use_cases: UseCases) -> None:
    vars(use_cases)["more_leases"] = Leases(MemoryStore(SystemClock()))
    with pytest.raises(AssertionError, match="each name: acquire_lease, release_lease, renew_lease"):
        find_methods(use_cases)
    del vars(use_cases)["more_leases"], vars(use_cases)["tags"]
    with pytest.raises(AssertionError, match="each name: create_tag, delete_tag, list_tags"):
        find_methods(use_cases)


def test_only_names_of_the_protocol_are_looked_up(metastore: InProcessMetastore) -> None:
    assert not hasattr(metastore, "step_poll")
    assert not hasattr(metastore, "touch")
    metastore.create_database("d")
    assert metastore.list_tables("d") == []
