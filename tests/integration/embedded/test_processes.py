from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

import lakelog.embedded
from lakelog.embedded.ports import free_port, free_ports
from lakelog.embedded.processes import ManagedProcess
from lakelog.embedded.supervisor import Supervisor
from lakelog.errors import Unavailable

ROOT = Path(lakelog.embedded.__file__).parents[2]
SLEEP = "import time; print('here', flush=True); time.sleep(600)"


def python(code: str, folder: Path, **options: object) -> ManagedProcess:
    return ManagedProcess("child", [sys.executable, "-c", code], log=folder / "logs" / "child.log", **options)  # type: ignore[arg-type]


def eventually(holds: Callable[[], bool], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def state_of(pid: int) -> str:
    """The letter of the kernel: R, S, T (stopped), Z; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return ""


def test_start_waits_until_it_is_ready(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    child = python(
        f"import time, pathlib; time.sleep(0.3); pathlib.Path({str(ready)!r}).touch(); time.sleep(600)", tmp_path
    )
    child = ManagedProcess("child", child.command, log=child.log, is_ready=ready.exists)
    child.start()
    assert ready.exists()
    assert child.is_running
    assert child.exit_code is None
    child.stop()
    assert child.exit_code == -15


def test_an_early_end_is_reported_with_code_and_last_words(tmp_path: Path) -> None:
    child = python("import sys; print('no such warehouse'); sys.exit(7)", tmp_path, is_ready=lambda: False)
    with pytest.raises(Unavailable, match=r"child ended with exit code 7(.|\n)*no such warehouse") as caught:
        child.start()
    assert caught.value.reason == "PROCESS_FAILED"


def test_a_failed_start_does_not_show_what_earlier_ones_said(tmp_path: Path) -> None:
    child = python("print('fine')", tmp_path)
    child.start()
    child.wait(10.0)
    again = python("import sys; print('no warehouse'); sys.exit(2)", tmp_path, is_ready=lambda: False)
    with pytest.raises(Unavailable) as caught:
        again.start()
    assert caught.value.message.splitlines()[1:] == ["    no warehouse"]
    assert again.last_log_lines() == ["fine", "no warehouse"]


def test_not_ready_in_time_is_killed(tmp_path: Path) -> None:
    child = python(SLEEP, tmp_path, is_ready=lambda: False, ready_within_s=0.3)
    with pytest.raises(Unavailable, match=r"not ready within 0\.3 s"):
        child.start()
    assert child.exit_code == -9


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    child = ManagedProcess("ghost", ["/nonexistent/ghost"], log=tmp_path / "log", is_ready=lambda: False)
    with pytest.raises(Unavailable, match=r"ghost ended(.|\n)*No such file"):
        child.start()


def test_a_stop_that_is_ignored_becomes_a_kill(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"
    child = python(code, tmp_path, stop_within_s=0.2)
    child.start()
    eventually(lambda: child.last_log_lines() == ["here"])
    child.stop()
    assert child.exit_code == -9
    child.stop()


def test_stop_takes_grandchildren_along(tmp_path: Path) -> None:
    code = f"""
import subprocess, sys
grandchild = subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
print(grandchild.pid, flush=True)
grandchild.wait()
"""
    child = python(code, tmp_path)
    child.start()
    eventually(lambda: len(child.last_log_lines()) == 2)
    grandchild = int(child.last_log_lines()[0])
    child.stop()
    eventually(lambda: state_of(grandchild) in ("", "Z"))


def test_pause_resume_and_stopping_a_paused_one(tmp_path: Path) -> None:
    child = python(SLEEP, tmp_path)
    child.start()
    pid = child.pid
    assert pid is not None
    child.pause()
    eventually(lambda: state_of(pid) == "T")
    assert child.is_running
    child.resume()
    eventually(lambda: state_of(pid) == "S")
    child.pause()
    child.stop()
    assert child.exit_code == -15


def test_restart_appends_to_the_log(tmp_path: Path) -> None:
    child = python(SLEEP, tmp_path)
    child.start()
    eventually(lambda: child.last_log_lines() == ["here"])
    first = child.pid
    child.restart()
    eventually(lambda: child.last_log_lines() == ["here", "here"])
    assert child.pid != first
    child.kill()
    assert child.exit_code == -9


def test_wait_gives_the_exit_code_or_says_that_it_runs(tmp_path: Path) -> None:
    child = python("import sys; sys.exit(4)", tmp_path)
    child.start()
    assert child.wait(10) == 4
    slow = python(SLEEP, tmp_path)
    slow.start()
    with pytest.raises(Unavailable, match=r"did not end within 0\.1 s"):
        slow.wait(0.1)
    slow.kill()


def test_children_live_on_when_the_thread_that_started_them_ends(tmp_path: Path) -> None:
    child = python(SLEEP, tmp_path)
    thread = threading.Thread(target=child.start)
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert child.is_running
    child.kill()


@pytest.mark.parametrize("paused", [False, True])
def test_children_die_with_a_killed_parent(tmp_path: Path, paused: bool) -> None:
    code = f"""
import sys, time
from pathlib import Path
from lakelog.embedded.processes import ManagedProcess
child = ManagedProcess("child", [sys.executable, "-c", {SLEEP!r}], log=Path({str(tmp_path / "log")!r}))
child.start()
if {paused}:
    child.pause()
print(child.pid, flush=True)
time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.3)
        assert state_of(pid)
        parent.kill()
    eventually(lambda: state_of(pid) in ("", "Z"))


def test_the_supervisor_restarts_what_dies_and_stops_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing but the end of a process, of a restart or of the test wakes it.
    monkeypatch.setattr("lakelog.embedded.supervisor.LOOK_EVERY_S", 3600.0)
    one, two = python(SLEEP, tmp_path / "1"), python(SLEEP, tmp_path / "2")
    supervisor = Supervisor([one, two])
    supervisor.start()
    first = one.pid
    one.kill()
    stop = threading.Event()
    thread = threading.Thread(target=supervisor.run, args=(stop,))
    thread.start()
    eventually(lambda: one.is_running and one.pid != first)
    second = one.pid
    one.kill()
    eventually(lambda: one.is_running and one.pid != second)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert not one.is_running
    assert not two.is_running


def test_free_ports_are_different() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(1024 <= port <= 65535 for port in ports)


def test_free_ports_are_given_to_no_outgoing_connection() -> None:
    lowest_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < lowest_given for port in free_ports(50))


def test_ports_that_are_listened_on_or_bound_are_not_free() -> None:
    with contextlib.ExitStack() as held:
        taken = free_ports(2)
        held.enter_context(socket.create_server(("127.0.0.1", taken[0])))
        bound = held.enter_context(socket.socket())
        bound.bind(("127.0.0.1", taken[1]))
        assert first_free(taken) is None


def first_free(ports: list[int]) -> int | None:
    """Which of these `free_ports` would give."""
    with mock.patch("lakelog.embedded.ports._candidates", return_value=ports):
        try:
            return free_port()
        except Unavailable:
            return None
