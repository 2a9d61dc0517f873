from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.faults.network import Hub, running
from tests.e2e.faults.lab import Lab
from tests.support.forked_stack import ForkedStack, forked_stack


@pytest.fixture(scope="module")
def stack_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ll-lab-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def module_lab(stack_folder: Path) -> Iterator[Lab]:
    with forked_stack(stack_folder) as stack:
        yield Lab(stack, stack_folder)


@pytest.fixture(scope="session")
def shared_hub() -> Iterator[Hub]:
    """A metastore whose connections go through proxies; it gives silence, and transactions without work, a second."""
    variables = {"LAKELOG_DATABASE_SILENCE": "1", "LAKELOG_DATABASE_IDLE": "1"}
    with (
        tempfile.TemporaryDirectory(prefix="ll-net-", ignore_cleanup_errors=True) as folder,
        running(Path(folder), variables, ForkedStack) as hub,
    ):
        yield hub


@pytest.fixture
def hub(shared_hub: Hub) -> Iterator[Hub]:
    yield shared_hub
    shared_hub.database.heal()
    shared_hub.service.heal()


@pytest.fixture
def lab(module_lab: Lab) -> Iterator[Lab]:
    """The module's stack with two empty tables."""
    module_lab.make_tables()
    yield module_lab
    module_lab.end_processes()
