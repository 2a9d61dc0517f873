"""What ends a wait for the end of children."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from lakelog.embedded.exits import Exits


class Waiting:
    """A wait without a limit that matters, on a thread of its own."""

    def __init__(self, exits: Exits, pids: Collection[int] = ()) -> None:
        self._thread = threading.Thread(target=exits.wait, args=(pids, 3600.0), daemon=True)
        self._thread.start()

    @property
    def goes_on(self) -> bool:
        self._thread.join(0.1)
        return self._thread.is_alive()

    @property
    def ends(self) -> bool:
        self._thread.join(20)
        return not self._thread.is_alive()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """It runs until its standard input is closed."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as started:
        yield started


def end(child: subprocess.Popen[bytes]) -> None:
    """It has ended, and no one has waited for it."""
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def count_handles() -> int:
    """How many handles of processes this one has open."""
    return sum("pidfd" in os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink())


def test_a_wake_ends_the_present_wait() -> None:
    exits = Exits()
    waiting = Waiting(exits)
    assert waiting.goes_on
    exits.wake()
    assert waiting.ends


def test_wakes_before_a_wait_end_one_wait() -> None:
    exits = Exits()
    exits.wake()
    exits.wake()
    assert Waiting(exits).ends
    following = Waiting(exits)
    assert following.goes_on
    exits.wake()
    assert following.ends


def test_the_end_of_a_child_ends_the_wait(child: subprocess.Popen[bytes]) -> None:
    waiting = Waiting(Exits(), [child.pid])
    assert waiting.goes_on
    end(child)
    assert waiting.ends


def test_a_child_that_has_ended_before_ends_the_wait(child: subprocess.Popen[bytes]) -> None:
    end(child)
    assert Waiting(Exits(), [child.pid]).ends


def test_a_child_that_another_thread_has_waited_for_ends_the_wait(child: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as other:
        pass
    assert Waiting(Exits(), [child.pid, other.pid]).ends
    assert count_handles() == 0, "that of the first is closed"


def test_a_wait_ends_when_its_time_is_over(child: subprocess.Popen[bytes]) -> None:
    Exits().wait([child.pid], 0.01)
    assert child.poll() is None
    assert count_handles() == 0
