"""Who makes a call, as use cases learn it."""

from __future__ import annotations

import contextvars

import pytest

from lakelog.serving.access import ANYONE, Caller, Role
from metastore.ownership import EVERYONE, Principal
from metastore.server.callers import admit, principal


def admitted(caller: Caller, *, identified: bool = True) -> Principal:
    def call() -> Principal:
        admit(caller, identified=identified)
        return principal()

    return contextvars.Context().run(call)


def test_names_and_admins() -> None:
    assert admitted(Caller("ann", Role.READER)) == Principal("ann")
    assert admitted(Caller("ann", Role.WRITER)) == Principal("ann")
    assert admitted(Caller("ann", Role.ADMIN)) == Principal("ann", may_all=True)
    assert admitted(ANYONE, identified=False) == EVERYONE
    # A token of that name is not everyone: what it opens is its own.
    assert admitted(Caller("anyone", Role.WRITER)) == Principal("anyone")


def test_a_call_that_was_not_admitted_is_no_ones() -> None:
    with pytest.raises(LookupError):
        contextvars.Context().run(principal)
