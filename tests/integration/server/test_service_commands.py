"""`lakelog SERVICE`: the command becomes the service, with its options, exit codes and signals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.cli import app
from lakelog.cli.services import become


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lakelog.cli.main", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (("metastore", "serve", "--help"), "usage: lakelog metastore serve"),
        (("compactor", "run", "--help"), "usage: lakelog compactor run"),
        (("publisher", "run", "--help"), "usage: lakelog publisher run"),
        (("pipeline", "run", "--help"), "PIPELINE.yaml"),
        (("pipeline", "--help"), "usage: lakelog pipeline [-h] run | check ..."),
        (("writer", "check", "--help"), "usage: lakelog pipeline check"),
        (("reader", "serve", "--help"), "usage: lakelog reader serve"),
    ],
)
def test_each_service_has_a_name(arguments: tuple[str, ...], usage: str) -> None:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert usage in done.stdout


def test_what_a_service_says_and_how_it_ends_is_its_own() -> None:
    done = run("metastore", "serve", "--no-such-option")
    assert done.returncode == 2
    assert "lakelog metastore" in done.stderr
    missing = run("pipeline", "check", "no-such-file.yaml")
    assert missing.returncode != 0
    assert "no-such-file.yaml" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pipeline",), "lakelog pipeline: the following arguments are required: run | check"),
        (("pipeline", "rnu"), "lakelog pipeline: argument run | check: invalid choice: 'rnu' (choose from"),
        (("writer", "publish"), "lakelog writer: publishers have their own command: lakelog publisher run"),
        (("compactor",), "lakelog compactor: the following arguments are required: run"),
        (("publisher",), "lakelog publisher: the command is missing: say run (see --help)"),
        (("publisher", "--tables", "a.b"), "lakelog publisher: there is no command '--tables'; say run (see --help)"),
    ],
)
def test_no_service_begins_without_a_command(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--token", "a", "compactor", "run"),
        ("--target", "other:1", "--tls", "compactor", "run"),
        ("--target", "other:1", "metastore", "serve"),
    ],
)
def test_options_of_the_command_are_none_of_a_service(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert f"The options of a service follow its name: lakelog {arguments[-2]} ... --help" in done.stderr


def test_a_target_before_the_name_of_a_service_is_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setattr("lakelog.cli.service_commands.become", lambda *words: became.append(words))
    for arguments in (["-t", "a:1", "pipeline", "run", "f.yaml"], ["--target", "a:1", "publisher", "run"]):
        app.run(arguments)
    assert became == [
        ("pipeline", ("run", "--target", "a:1", "f.yaml")),
        ("publisher", ("run", "--target", "a:1")),
    ]


def test_a_service_is_the_one_of_this_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr("os.execve", lambda program, command, environment: became.append([program, *command]))
    monkeypatch.setattr(
        "lakelog.embedded.services._find", lambda name: Path("/a/b/c/d/e") if "services" in name else None
    )
    become("publisher", ["run", "--x"])
    assert became == [[sys.executable, sys.executable, "-m", "lakelog.services.writer", "publish", "--x"]]
    monkeypatch.setattr("lakelog.embedded.services._find", lambda name: None)
    with pytest.raises(SystemExit, match="The service reader is not part of this installation"):
        become("reader", [])


def test_services_are_listed_with_the_commands() -> None:
    listed = run("--help").stdout
    assert [name for name in ("metastore", "pipeline", "publisher", "compactor", "reader") if name not in listed] == []
    assert "Did you mean 'compactor'" in run("compacter").stderr
