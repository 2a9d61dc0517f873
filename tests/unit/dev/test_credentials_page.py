"""The page of credentials has a row for each credential, and each row says all that the page promises."""

from __future__ import annotations

import re

import pytest

from lakelog.format.tables.grant import GrantLevel
from lakelog.serving.access import Role
from tests.support.repository import ROOT
from tests.unit.k8s.manifests import VARIANTS, build, of_kind
from tests.unit.k8s.rules import ALL_SECRETS

PAGE = (ROOT / "docs" / "credentials.md").read_text()
COLUMNS = ["credential", "its holder can", "what limits it", "how it is noticed", "how it is taken back"]


def list_rows(text: str) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if row != COLUMNS and not set(row[0]) <= set("- ")]


def find_missing(text: str, names: set[str]) -> list[str]:
    """The names that the first column of no row has."""
    named = " ".join(row[0] for row in list_rows(text))
    return sorted(name for name in names if f"`{name}`" not in named)


def test_every_row_is_complete() -> None:
    rows = list_rows(PAGE)
    assert len(rows) > 25
    for row in rows:
        assert len(row) == len(COLUMNS), row[0]
        # Nothing is to be noticed or taken back where there is no right.
        assert all(row) or row[1].startswith("nothing at the API"), row[0]


def test_every_secret_of_the_manifests_has_a_row() -> None:
    assert find_missing(PAGE, set(ALL_SECRETS)) == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_service_account_has_a_row(variant: str) -> None:
    accounts = {each["metadata"]["name"] for each in of_kind(build(variant), "ServiceAccount")}
    # Each pipeline has an account of its own.
    kinds = {re.sub("^writer-.*", "writer", each) for each in accounts}
    assert find_missing(PAGE, kinds) == []


def test_every_role_and_level_has_a_row() -> None:
    named = " ".join(row[0] for row in list_rows(PAGE))
    assert find_missing(PAGE, {role.name.lower() for role in Role}) == []
    for level in GrantLevel:
        assert re.search(rf"an? {level.name.lower()}'s grant", named), level


def test_control_a_secret_without_a_row_is_found() -> None:
    assert find_missing(PAGE.replace("`warehouse-credentials`", ""), set(ALL_SECRETS)) == ["warehouse-credentials"]
