"""Completion in real shells: what is typed with the tabulator reaches the command as it should."""

from __future__ import annotations

import functools
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import dev
import lakelog
from tests.integration.cli.lake import Lake, open_lake

ROOT = Path(dev.__file__).resolve().parents[1]
HOSTILE = "$(touch pwned) it's; `touch pwned`"
_STUB = """\
#!/bin/sh
# The command where a shell asks for completions; otherwise it writes down what it was called with.
# A busy machine may need longer for imports than a user may wait for names.
if [ -n "$_LAKELOG_COMPLETE" ]; then
    exec {python} -c 'from lakelog.cli import main; from lakelog.cli.completion import live_names
live_names.WITHIN_S = 30
main.main()'
fi
exec {python} -c 'import json, os, sys; open("called", "a").write(json.dumps(sys.argv[1:]) + "\\n")' "$@"
"""
_INTERACTIVE = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}
_BEGIN_S = 60.0


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with open_lake(tmp_path_factory.mktemp("lake")) as lake:
        with lakelog.connect(lake.target) as catalog:
            catalog.create_table("shop.odd", pa.schema([(HOSTILE, pa.int64())]))
        yield lake


def environment_of(lake: Lake, folder: Path) -> dict[str, str]:
    (folder / "bin").mkdir()
    stub = folder / "bin" / "lakelog"
    stub.write_text(_STUB.format(python=sys.executable))
    stub.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG")}
    return {
        **kept,
        "PATH": f"{stub.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "LAKELOG_TARGET": lake.target,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
    }


def script_of(shell: str) -> str:
    command = [sys.executable, "-m", "lakelog.cli.main", "completion", shell]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")


def type_into(shell: str, lines: list[str], environment: dict[str, str], folder: Path) -> list[list[str]]:
    """Types lines into a shell on a terminal; returns the arguments with which the command was called."""
    (folder / "script").write_text(script_of(shell))
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(shell, [shell, *_INTERACTIVE[shell]], environment)
    seen = b""
    called = folder / "called"

    def has_called(times: int) -> bool:
        return called.exists() and called.read_text().count("\n") >= times

    try:
        os.write(terminal, b". ./script; echo rea''dy\r")
        seen = _read_until(terminal, seen, lambda text: b"ready" in text.replace(b"rea''dy", b""))
        for count, line in enumerate(lines, 1):
            os.write(terminal, line.encode() + b"\r")
            seen = _read_until(terminal, seen, functools.partial(lambda times, _: has_called(times), count))
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)
    return [json.loads(line) for line in called.read_text().splitlines()]


def _read_until(terminal: int, seen: bytes, is_done: Callable[[bytes], bool]) -> bytes:
    ends_s = time.monotonic() + _BEGIN_S
    while not is_done(seen):
        assert time.monotonic() < ends_s, seen.decode(errors="replace")
        if select.select([terminal], [], [], 0.05)[0]:
            seen += os.read(terminal, 65536)
    return seen


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_what_is_typed_with_the_tabulator_reaches_the_command(lake: Lake, tmp_path: Path, shell: str) -> None:
    need(shell)
    environment = environment_of(lake, tmp_path)
    lines = [
        "lakelog sna\t",
        "lakelog scan shop.ord\t",
        "lakelog scan shop.orders --columns id,ite\t",
        "lakelog scan shop.orders --columns=id,ite\t",
        "lakelog table create shop.x -O merge-eng\tfi\t",
        "lakelog scan shop.odd -c \t",
        "lakelog sql -e 'SELECT 1 FROM shop.orders$snap\t",
    ]
    called = type_into(shell, lines, environment, tmp_path)
    assert called[:6] == [
        ["snapshots"],
        ["scan", "shop.orders"],
        ["scan", "shop.orders", "--columns", "id,item"],
        ["scan", "shop.orders", "--columns=id,item"],
        ["table", "create", "shop.x", "-O", "merge-engine=first-row"],
        ["scan", "shop.odd", "-c", HOSTILE],
    ]
    assert called[6][2].strip() == "SELECT 1 FROM shop.orders$snapshots"
    assert not (tmp_path / "pwned").exists()


def test_fish_completes_with_names_and_quotes_them(lake: Lake, tmp_path: Path) -> None:
    need("fish")
    environment = environment_of(lake, tmp_path)
    (tmp_path / "script").write_text(script_of("fish"))

    def complete(line: str) -> list[str]:
        program = "source script; complete --escape -C $argv[1]"
        command = ["fish", "--no-config", "-c", program, line]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return [found.partition("\t")[0] for found in done.stdout.splitlines()]

    assert complete("lakelog sna") == ["snapshots"]
    assert complete("lakelog scan shop.ord") == ["shop.orders"]
    assert complete("lakelog scan shop.orders --columns id,ite") == ["id,item"]
    assert complete("lakelog scan shop.orders --columns=id,ite") == ["--columns=id,item"]
    assert complete("lakelog table create shop.x -O merge-engine=fi") == ["merge-engine=first-row"]
    (found,) = complete("lakelog scan shop.odd -c ")
    program = f"printf %s {found}"
    printed = subprocess.run(["fish", "--no-config", "-c", program], cwd=tmp_path, capture_output=True, check=True)
    assert printed.stdout.decode() == HOSTILE
    assert not (tmp_path / "pwned").exists()
