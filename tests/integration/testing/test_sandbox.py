"""A sandbox has what it was asked for, and leaves nothing where it was, however its program ends."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.errors import AlreadyExists, InvalidArgument, Unavailable
from lakelog.sdk.catalog import Catalog
from lakelog.testing import EmbeddedStack, open_sandbox
from tests.support.repository import ROOT


@pytest.fixture(autouse=True)
def no_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As a program without arguments, with a folder for temporary files in which nothing stays."""
    monkeypatch.setattr(sys, "argv", ["example.py"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, kept)
    assert [path for path in tmp_path.iterdir() if path.name.startswith("lakelog-sandbox-")] == []


def test_it_leaves_nothing(stack: EmbeddedStack, catalog: Catalog) -> None:
    with open_sandbox("lab", target=stack.target) as sandbox:
        assert catalog.tables("lab") == []
        sandbox.catalog.sql("CREATE TABLE lab.numbers (n BIGINT)")
        (sandbox.folder / "x").write_text("")
        assert sandbox.stack is None
    assert "lab" not in catalog.databases()
    sandbox.close()


def test_a_database_that_is_there_is_left_alone(stack: EmbeddedStack, catalog: Catalog) -> None:
    catalog.create_database("taken")
    try:
        with pytest.raises(AlreadyExists, match="lakelog database drop taken --cascade"):
            open_sandbox("taken", target=stack.target)
        assert "taken" in catalog.databases()
    finally:
        catalog.drop_database("taken")


def test_two_at_once(stack: EmbeddedStack, catalog: Catalog) -> None:
    with open_sandbox("twice", target=stack.target):
        with pytest.raises(AlreadyExists):
            open_sandbox("twice", target=stack.target)
        assert "twice" in catalog.databases()


def test_what_is_missing_is_named(stack: EmbeddedStack, catalog: Catalog) -> None:
    with pytest.raises(InvalidArgument, match="give --kafka HOST:PORT"):
        open_sandbox("lab", target=stack.target, kafka=True)
    with pytest.raises(Unavailable, match="no publisher runs"):
        open_sandbox("lab", target=stack.target, services=["publisher"])
    assert "lab" not in catalog.databases()
    with pytest.raises(InvalidArgument, match="'speech' cannot be started"):
        open_sandbox("lab", services=["speech"])


def test_arguments(stack: EmbeddedStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4.0)
    words = ["example.py", "--target", stack.target, "--kafka", "broker:9092", "--seconds", "2"]
    monkeypatch.setattr(sys, "argv", words)
    with open_sandbox("lab", kafka=True, parser=parser) as sandbox:
        assert (sandbox.target, sandbox.kafka, sandbox.arguments.seconds) == (stack.target, "broker:9092", 2.0)
    monkeypatch.setattr(sys, "argv", ["example.py", "--traget", "x"])
    with pytest.raises(SystemExit, match="2"):
        open_sandbox("lab")
    assert "--traget" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("raise RuntimeError('a claim does not hold')", 1),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)", 128 + signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", -signal.SIGINT),
    ],
)
def test_a_program_that_ends_in_the_middle(
    stack: EmbeddedStack, catalog: Catalog, tmp_path: Path, ending: str, code: int
) -> None:
    program = f"""
import os, signal, time
from lakelog.testing import open_sandbox

sandbox = open_sandbox("halfway", target={stack.target!r})
sandbox.catalog.sql("CREATE TABLE halfway.numbers (n BIGINT)")
{ending}
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    assert "halfway" not in catalog.databases()


def test_the_page_on_examples(stack: EmbeddedStack, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/examples.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    exec(block.replace('open_sandbox("lab")', f'open_sandbox("lab", target="{stack.target}")'), {})
    assert capsys.readouterr().out == "  n\n  1\n  2\n  ✓ there are two rows\n"
