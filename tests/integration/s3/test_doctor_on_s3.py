"""What `lakelog doctor` says of keys that a real store refuses: nothing is fine that keeps a caller from its tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.cli.doctor.check import Finding, Verdict
from lakelog.cli.doctor.situation import Situation
from lakelog.cli.doctor.surroundings import check_warehouse
from lakelog.cli.invocation import Invocation
from lakelog.storage.objects.store import S3Settings
from tests.integration.s3.vended import Lake, open_lake, token_of


@pytest.fixture(scope="module")
def lake(s3_settings: S3Settings) -> Iterator[Lake]:
    with open_lake(s3_settings) as opened:
        yield opened


def examine(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], warehouse: str | None = None
) -> Finding:
    for name in (*os.environ,):
        if name.startswith(("AWS_", "LAKELOG_")):
            monkeypatch.delenv(name)
    reached = {"LAKELOG_S3_ENDPOINT": lake.own.endpoint or "", "LAKELOG_S3_REGION": "us-east-1"}
    for name, value in {**reached, "AWS_EC2_METADATA_DISABLED": "true", **variables}.items():
        monkeypatch.setenv(name, value)
    invocation = Invocation(target=lake.target, target_given=True, token=token_of("root"))
    try:
        return check_warehouse(Situation(invocation, os.environ, Path("none"), warehouse=warehouse))
    finally:
        invocation.close()


def keys_of(lake: Lake, **changes: str) -> dict[str, str]:
    right = {"ACCESS_KEY_ID": lake.own.access_key_id or "", "SECRET_ACCESS_KEY": lake.own.secret_access_key or ""}
    return {f"LAKELOG_S3_{name}": value for name, value in {**right, **changes}.items()}


def test_right_keys(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine(lake, monkeypatch, keys_of(lake)).verdict is Verdict.OK


@pytest.mark.parametrize("wrong", ["ACCESS_KEY_ID", "SECRET_ACCESS_KEY"])
def test_keys_that_are_refused_fail_and_are_named(lake: Lake, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    # They are used for tables, too, although this metastore vends others.
    found = examine(lake, monkeypatch, keys_of(lake, **{wrong: "wrong"}))
    assert found.verdict is Verdict.FAILED, found
    assert f"LAKELOG_S3_{wrong}" in found.remedy


def test_a_caller_that_gets_keys_needs_none_of_its_own(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    found = examine(lake, monkeypatch, {})
    assert (found.verdict, "the metastore vends keys" in found.remedy) == (Verdict.WARNING, True), found


def test_a_place_that_is_named_is_reached_by_own_keys_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    found = examine(lake, monkeypatch, {}, "s3://lake/elsewhere")
    assert (found.verdict, "Give keys" in found.remedy) == (Verdict.FAILED, True), found
