"""Who has the lock of a checkpoint, and when the holder of a lease counts as dead."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.serving.streams import checkpoint_lock
from lakelog.serving.streams.checkpoint_lock import FILE_NAME, CheckpointLock

HOLDER = """
import sys, time
from pathlib import Path
from lakelog.serving.streams.checkpoint_lock import CheckpointLock
lock = CheckpointLock(Path(sys.argv[1]))
lock.lock(lambda: None)
lock.record("pipeline/p", 7, "writer a 1")
print("taken", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which has the lock and a lease of epoch 7."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        yield process
        process.kill()


def take(folder: Path, came: threading.Event | None = None) -> tuple[CheckpointLock, threading.Event]:
    """A lock of this process that was requested, and whether it came later."""
    came = came or threading.Event()
    lock = CheckpointLock(folder)
    lock.lock(came.set)
    return lock, came


def test_the_next_one_is_woken_by_a_kill_and_knows_whose_lease_is_left(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    lock, came = take(tmp_path)
    assert not lock.is_of_dead("pipeline/p", 7, "writer a 1"), "it lives"
    assert not came.is_set()
    holder.send_signal(signal.SIGKILL)
    assert came.wait(10)
    assert lock.is_of_dead("pipeline/p", 7, "writer a 1")
    assert not lock.is_of_dead("pipeline/p", 8, "writer a 1"), "of another instance, on another machine"
    assert not lock.is_of_dead("pipeline/q", 7, "writer a 1")
    assert not lock.is_of_dead("pipeline/p", 7, "writer b 1"), "on another machine, with a new database"


def test_a_frozen_one_is_not_dead(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGSTOP)
    lock, came = take(tmp_path)
    assert not came.wait(0.2)
    assert not lock.is_of_dead("pipeline/p", 7, "writer a 1")


def test_of_several_that_wait_one_is_next(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    one_came = threading.Event()
    waiting = [take(tmp_path, one_came)[0] for _ in range(3)]
    assert not one_came.is_set()
    holder.kill()
    assert one_came.wait(10)
    assert sum(lock.is_of_dead("pipeline/p", 7, "writer a 1") for lock in waiting) == 1


def test_what_was_taken_without_the_lock_is_noted_once_it_is_there(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    """As by one that took over from a frozen one."""
    lock, came = take(tmp_path)
    lock.record("pipeline/p", 9, "writer a 1")
    assert json.loads((tmp_path / FILE_NAME).read_text())["epoch"] == 7
    holder.kill()
    assert came.wait(10)
    assert json.loads((tmp_path / FILE_NAME).read_text())["epoch"] == 9


def test_programs_that_a_holder_starts_do_not_keep_the_lock(tmp_path: Path) -> None:
    start = "import subprocess; print(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL).pid, flush=True)"
    code = HOLDER.replace("time.sleep(600)", start)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True)
    try:
        lock, _ = take(tmp_path)
        assert lock.is_of_dead("pipeline/p", 7, "writer a 1")
    finally:
        os.kill(int(done.stdout.split()[-1]), signal.SIGKILL)


def test_a_copy_of_a_checkpoint_and_another_start_of_the_machine_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = HOLDER.replace("time.sleep(600)", "")
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "own")], stdout=subprocess.DEVNULL, check=True)
    shutil.copytree(tmp_path / "own", tmp_path / "copy")
    assert not take(tmp_path / "copy")[0].is_of_dead("pipeline/p", 7, "writer a 1")
    lock, _ = take(tmp_path / "own")
    assert lock.is_of_dead("pipeline/p", 7, "writer a 1")
    other = tmp_path / "boot"
    other.write_text("another")
    monkeypatch.setattr(checkpoint_lock, "_BOOT_FILE", other)
    assert not lock.is_of_dead("pipeline/p", 7, "writer a 1")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"lease": "pipeline/p", "epoch": 7}'])
def test_nonsense_in_the_file_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    lock, _ = take(tmp_path)
    assert not lock.is_of_dead("pipeline/p", 7, "writer a 1")
    lock.record("pipeline/p", 7, "writer a 1")
    assert lock.is_of_dead("pipeline/p", 7, "writer a 1")


def test_where_nothing_can_be_locked_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lock, came = take(tmp_path / "file" / "below")
    lock.record("pipeline/p", 7, "writer a 1")
    assert not lock.is_of_dead("pipeline/p", 7, "writer a 1")
    assert not came.is_set()
