"""The examples of the help can be typed: none is wrong usage, on tables like those that they name."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dev.cli_page import walk_commands
from lakelog.cli.app import app
from lakelog.cli.failures import ExitCode
from lakelog.cli.invocation import LakelogCommand
from tests.integration.cli.lake import Lake, open_lake

OTHERWISE = {
    "lakelog table create": ExitCode.CONFLICT,
    "lakelog table compact shop.orders": ExitCode.UNAVAILABLE,
    "lakelog table restore": ExitCode.NOT_FOUND,
    "lakelog tags create shop.orders release-1": ExitCode.CONFLICT,
    "lakelog doctor --kafka": ExitCode.FAILED,
    "lakelog pipelines forget": ExitCode.NOT_FOUND,
    "lakelog log status shop": ExitCode.NOT_FOUND,
    "lakelog log status": ExitCode.FINE,
    "lakelog log": ExitCode.NOT_FOUND,
}
"""By the beginning of a line: how it ends here, where no compactor, broker or writer is, and tables exist already."""
NOT_RUN = ("lakelog up", "lakelog demo")
ENDLESS = ("--follow", "--watch")


def examples() -> list[str]:
    lines = [
        line
        for _, command in walk_commands("lakelog", app)
        if isinstance(command, LakelogCommand)
        for line in command.example
    ]
    wanted = [line for line in lines if not line.startswith(NOT_RUN) and not {*ENDLESS} & {*line.split()}]
    # Those that rename columns come last.
    return sorted(dict.fromkeys(wanted), key=lambda line: line.startswith("lakelog table alter"))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake(tmp_path) as lake:
        yield lake


def test_examples_can_be_typed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lake.folder)
    lines = examples()
    assert len(lines) > 40
    wrong = []
    for line in lines:
        words = shlex.split(line)[1:]
        file = words.pop() if "<" in words else ""
        words = [word for word in words if word != "<"]
        if words[:2] == ["table", "compact"] and "--dry-run" not in words:
            words += ["--timeout", "0"]
        if _asks(words):
            words.append("--yes")
        done = lake.run(*words, typed=(lake.folder / file).read_text() if file else "")
        expected = next((code for start, code in OTHERWISE.items() if line.startswith(start)), ExitCode.FINE)
        if done.code != expected:
            wrong.append(f"{line}: {done.code} instead of {expected}: {done.err}")
    assert not wrong, "\n".join(wrong)


def _asks(words: list[str]) -> bool:
    """Whether the command of these words asks before it acts; there is no terminal here."""
    command: click.Command = app
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None
        command, words = found, words[1:]
    return any("--yes" in parameter.opts for parameter in command.params)
