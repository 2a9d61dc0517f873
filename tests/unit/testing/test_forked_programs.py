"""Programs that tests fork behave like programs that Python starts: output, exit code, environment, folder, signals."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.forked import ForkedProcess, run_forked


def test_output_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text('{"a": 1}')
    (tmp_path / "bad.json").write_text("{")
    good, bad = (run_forked("json.tool", [f"{name}.json"], folder=tmp_path, environment={}) for name in ("good", "bad"))
    assert (good.returncode, json.loads(good.stdout), good.stderr) == (0, {"a": 1}, "")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "Expecting property name" in bad.stderr


def test_its_environment_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    shown = run_forked("site", ["--user-base"], folder=tmp_path, environment={"PYTHONUSERBASE": str(tmp_path / "home")})
    assert shown.stdout.strip() == str(tmp_path / "home")
    assert os.environ.get("PYTHONUSERBASE") != str(tmp_path / "home")


def test_signals(tmp_path: Path) -> None:
    process = ForkedProcess("http.server", ["0"], folder=tmp_path, environment={}, output=tmp_path / "out")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    assert process.poll() is None
    process.kill()
    assert process.wait(10) == process.returncode == -signal.SIGKILL


def test_a_signal_to_its_session_reaches_what_it_started(tmp_path: Path) -> None:
    words = ["-n1", "-r1", "import subprocess; subprocess.run(['sleep', '600'])"]
    process = ForkedProcess("timeit", words, folder=tmp_path, environment={}, output=tmp_path / "out", own_session=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (found := children.read_text().split()):
        assert process.poll() is None, (tmp_path / "out").read_text()
        time.sleep(0.01)
    child = os.pidfd_open(int(found[0]))
    process.signal_session(signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL
    assert select.select([child], [], [], 10)[0], "the child has ended, too"
    os.close(child)
    # It has ended: nothing that got its number since is meant.
    process.signal_session(signal.SIGKILL)
