"""Every block of the pages for people who come from elsewhere runs, in its order, on a real stack."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lakelog
from lakelog.cli import app
from lakelog.cli.services import SERVICES
from lakelog.sql import SqlSession
from lakelog.testing import EmbeddedStack
from tests.support.forked_stack import ForkedStack

_ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# The batches of a pipeline are Spark's; tests/e2e/writer runs pipelines of this form.
_WITH_SPARK = "lakelog pipeline run"


@contextmanager
def running(*services: str, kafka: str | None = None) -> Iterator[EmbeddedStack]:
    with (
        tempfile.TemporaryDirectory(prefix="ll-", ignore_cleanup_errors=True) as data,
        ForkedStack(Path(data), services=("metastore", *services), kafka_bootstrap_servers=kafka) as stack,
    ):
        yield stack


class Reader:
    """Does what a page says, block by block: commands, statements, Python in one program, files."""

    def __init__(self, stack: EmbeddedStack, addresses: dict[str, str]) -> None:
        self._stack = stack
        self._addresses = {"localhost:7450": stack.target, **addresses}
        self._names: dict[str, object] = {}
        self.done: list[str] = []

    def follow(self, page: str) -> None:
        text = (_ROOT / page).read_text()
        for found in _BLOCK.finditer(text):
            language, block = found[1], found[2]
            for usual, here in self._addresses.items():
                block = block.replace(usual, here)
            match language:
                case "python":
                    exec(compile(block, page, "exec"), self._names)
                case "sql":
                    self._run_sql(block)
                case "yaml":
                    # The page says the name of the file right before it.
                    name = re.findall(r"`([\w-]+\.yaml)`", text[: found.start()])[-1]
                    Path(name).write_text(block)
                case "":
                    self._run_commands(block)
                case _:
                    pytest.fail(f"{page}: nothing runs a block of {language!r}")
            self.done.append(language)

    def _run_sql(self, block: str) -> None:
        with lakelog.connect(self._stack.target) as catalog:
            session = SqlSession(catalog)
            for statement in filter(None, map(str.strip, block.split(";\n"))):
                session.execute(statement.removesuffix(";"))

    def _run_commands(self, block: str) -> None:
        for command in block.splitlines():
            words = shlex.split(command, comments=True)
            assert words[0] == "lakelog"
            if command.startswith(_WITH_SPARK):
                continue
            if words[1] in SERVICES:
                # It would become another program.
                done = subprocess.run(
                    [sys.executable, "-m", *words], capture_output=True, text=True, timeout=120, check=False
                )
                assert done.returncode == 0, (command, done.stdout, done.stderr)
            else:
                assert app.run(words[1:]) == 0, command


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(_ROOT))


def test_from_paimon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with running("compactor") as stack:
        monkeypatch.setenv("LAKELOG_TARGET", stack.target)
        reader = Reader(stack, {})
        reader.follow("docs/from-paimon.md")
        with lakelog.connect(stack.target) as catalog:
            # The rollback brought the first state back: five rows, as they were exported.
            assert catalog.table("shop.orders").count() == 5
    printed = capsys.readouterr().out
    assert "2 ['-U', '+U']" in printed
    assert reader.done.count("python") == 3


def test_from_iceberg_and_delta(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with running("compactor") as stack:
        monkeypatch.setenv("LAKELOG_TARGET", stack.target)
        reader = Reader(stack, {})
        reader.follow("docs/from-iceberg-and-delta.md")
        with lakelog.connect(stack.target) as catalog:
            assert catalog.table("shop.events").count() == 1
    printed = capsys.readouterr().out
    assert "{'id': 2, '_row_kind': '-U'}, {'id': 2, '_row_kind': '+U'}" in printed
    assert reader.done.count("sql") == 3


def test_from_kafka_and_debezium(
    kafka_broker: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running("publisher", kafka=kafka_broker) as stack:
        monkeypatch.setenv("LAKELOG_TARGET", stack.target)
        reader = Reader(stack, {"localhost:9092": kafka_broker})
        reader.follow("docs/from-kafka-and-debezium.md")
    printed = capsys.readouterr().out
    assert "u {'id': 1, 'item': 'tea'} {'id': 1, 'item': 'green tea'}" in printed
    assert reader.done.count("python") == 4
