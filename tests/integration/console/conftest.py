"""One metastore with tokens and two consoles for the whole folder: one that only shows, and one with actions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakelog.sdk.catalog import Catalog
from tests.support.running_console import RunningConsole, metastore_with_tokens, running_console


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Catalog]]:
    with metastore_with_tokens(tmp_path_factory.mktemp("warehouse")) as found:
        yield found


@pytest.fixture(scope="module")
def target(served: tuple[str, Catalog]) -> str:
    return served[0]


@pytest.fixture(scope="module")
def catalog(served: tuple[str, Catalog]) -> Catalog:
    """An admin's."""
    return served[1]


@pytest.fixture(scope="module")
def console(target: str) -> Iterator[RunningConsole]:
    """It only shows."""
    with running_console(target) as running:
        yield running


@pytest.fixture(scope="module")
def acting(target: str) -> Iterator[RunningConsole]:
    """It offers actions."""
    with running_console(target, "--actions") as running:
        yield running
