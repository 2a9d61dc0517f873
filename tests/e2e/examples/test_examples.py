"""Each example runs as its README says, shows what it is there to show, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lakelog
from lakelog.testing import EmbeddedStack
from tests.support.repository import ROOT

pytestmark = pytest.mark.e2e

SCRIPTS = {
    "change_data_capture": "✓ the new customer has a value in it",
    "dashboard": "✓ the dashboard's revenue is the same",
}
NOTEBOOKS = {
    "changelog_producers": "-U 10: 100  +I 10: 101  -U 10: 100  -U 10: 100",
    "consistency": "committed by its successor",
    "from_other_formats": "✓ it has what a merge of the records gives",
    "quickstart": "✓ it went on with the fourth",
    "rollback": "✓ the pot is on its new shelf",
}
"""What a run of each prints. A notebook is its script cell by cell
(`./run check generated_pages`), so one of both runs."""

WITHIN_S = 150


def run(command: list[str], folder: Path, **variables: str) -> str:
    """What a program prints; it must end well, and leave no file in its folder for temporary ones."""
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), **variables}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    assert [each.name for each in temporary.iterdir() if each.name.startswith("lakelog-sandbox-")] == []
    return done.stdout


def beside(stack: EmbeddedStack) -> list[str]:
    return ["--target", stack.target, "--kafka", stack.kafka]


def test_quickstart_by_itself(tmp_path: Path) -> None:
    """A target of the shell is someone else's lakelog."""
    script = str(ROOT / "examples/quickstart/quickstart.py")
    printed = run([script], tmp_path, LAKELOG_TARGET="127.0.0.1:9")
    assert NOTEBOOKS["quickstart"] in printed
    assert printed.endswith("Done.\n")


def test_no_example_is_left_out() -> None:
    assert sorted(path.stem for path in (ROOT / "examples").glob("*/*.ipynb")) == sorted([*SCRIPTS, *NOTEBOOKS])


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str, shared_stack: EmbeddedStack, tmp_path: Path) -> None:
    printed = run([str(ROOT / f"examples/{name}/{name}.py"), *beside(shared_stack)], tmp_path)
    assert SCRIPTS[name] in printed
    check_nothing_stays(shared_stack)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook(name: str, shared_stack: EmbeddedStack, tmp_path: Path) -> None:
    notebook = str(ROOT / f"examples/{name}/{name}.ipynb")
    printed = run(["-m", "tests.e2e.examples.notebook_process", notebook, *beside(shared_stack)], tmp_path)
    assert NOTEBOOKS[name] in printed
    assert "Starting" not in printed
    check_nothing_stays(shared_stack)


def check_nothing_stays(stack: EmbeddedStack) -> None:
    with lakelog.connect(stack.target) as catalog:
        assert catalog.databases() == []
