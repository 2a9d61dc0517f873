"""What is written by hand has the names and arguments of the blocking SDK, as what is generated has."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

import pytest

import lakelog
import lakelog.aio
from dev.aio_classes import WRAPPERS, Wrapper
from lakelog.aio.connecting import connect

_LEFT_OUT = {
    "Scan.files": "is for the SDK itself",
    "Scan.range_snapshots": "is for the SDK itself",
    "Scan.to_guard": "Transaction.guard takes the scan",
    "Subscription.keep_every_s": "is for this package",
    "Subscription.listen": "is for this package",
    "Subscription.read_ready": "is for this package",
    "Subscription.renew": "is for this package",
}


def list_public(kind: type) -> Iterator[tuple[str, object]]:
    for name, member in inspect.getmembers(kind):
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


@pytest.mark.parametrize("name", ["Scan", "SystemScan", "Subscription"])
def test_hand_written_classes_have_all_members(name: str) -> None:
    ours, theirs = getattr(lakelog.aio, name), getattr(lakelog, name)
    for member, original in list_public(theirs):
        if f"{name}.{member}" in _LEFT_OUT:
            assert not hasattr(ours, member)
            continue
        found = getattr(ours, member)
        if inspect.isfunction(original):
            assert inspect.signature(found).parameters == inspect.signature(original).parameters, member


def test_connect_takes_what_the_blocking_one_takes() -> None:
    parameters = dict(inspect.signature(connect).parameters)
    parameters.pop("threads")
    assert parameters == dict(inspect.signature(lakelog.connect).parameters)


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda each: each.original[1])
def test_generated_classes_have_all_members_but_those_left_out(wrapper: Wrapper) -> None:
    module, name = wrapper.original
    public = {member for member, _ in list_public(getattr(import_module(module), name))}
    ours = getattr(import_module(f"lakelog.aio.sdk.{wrapper.file}"), name)
    left_out = wrapper.left_out.keys()
    # The metastore is an attribute.
    assert left_out - {"metastore"} <= public
    assert public - left_out <= {member for member, _ in list_public(ours)}
