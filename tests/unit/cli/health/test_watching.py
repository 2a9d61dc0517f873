"""`lakelog status --watch` on a terminal: whatever ends or stops it, the terminal is as it was before."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lakelog.embedded.ports import free_port

SHOW, HIDE = "\x1b[?1049h", "\x1b[?1049l"


@dataclass
class Watching:
    process: subprocess.Popen[bytes]
    screen: int
    text: str = ""

    def read_until(self, is_there: Callable[[str], bool]) -> None:
        give_up_s = time.monotonic() + 60
        while not is_there(self.text):
            assert time.monotonic() < give_up_s, self.text
            self.text += os.read(self.screen, 65536).decode(errors="replace")

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.screen)[3] & termios.ECHO)


def watch(terminal: str) -> Iterator[Watching]:
    screen, end = pty.openpty()
    command = [sys.executable, "-m", "lakelog", "-t", f"127.0.0.1:{free_port()}", "status", "--watch"]
    environment = os.environ | {"TERM": terminal}
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment, start_new_session=True)
    try:
        yield Watching(process, screen)
    finally:
        process.kill()
        process.wait()
        os.close(end)
        os.close(screen)


@pytest.fixture
def watching() -> Iterator[Watching]:
    yield from watch("xterm")


@pytest.fixture
def dumb() -> Iterator[Watching]:
    yield from watch("dumb")


def test_it_is_stopped_goes_on_and_is_ended_by_signals(watching: Watching) -> None:
    watching.read_until(lambda text: "UNREACHABLE" in text)
    assert not watching.echoes
    watching.process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(watching.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    watching.read_until(lambda text: text.count(HIDE) == 1)
    assert watching.echoes
    watching.process.send_signal(signal.SIGCONT)
    watching.read_until(lambda text: text.count(SHOW) == 2)
    watching.process.send_signal(signal.SIGTERM)
    watching.read_until(lambda text: text.count(HIDE) == 2)
    assert watching.process.wait(30) == 128 + signal.SIGTERM
    assert watching.echoes


def test_a_dumb_terminal_gets_lines(dumb: Watching) -> None:
    dumb.read_until(lambda text: text.count("UNREACHABLE") == 1)
    assert "\x1b" not in dumb.text
    dumb.process.send_signal(signal.SIGINT)
    assert dumb.process.wait(30) == 0
