"""Programs that tests fork behave like programs that Python starts: output, exit code, environment, folder, signals."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.support.forked import ForkedProcess, run_forked
from tests.support.repository import ROOT


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


def test_one_that_leads_has_a_group_of_its_own_and_keeps_what_its_file_had(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before\n")
    words, out = ["--directory", str(tmp_path), "0"], tmp_path / "out"
    process = ForkedProcess("http.server", words, folder=tmp_path, environment={}, output=out, leads=True)
    assert os.getpgid(process.pid) == os.getsid(process.pid) == process.pid
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM
    assert out.read_text().startswith("before\n")


def test_one_that_leads_does_not_outlive_its_parent(tmp_path: Path) -> None:
    program = """
        import os, signal, sys
        from pathlib import Path
        from tests.support.forked import ForkedProcess
        folder = Path(sys.argv[1])
        process = ForkedProcess("http.server", ["0"], folder=folder, environment={}, output=folder / "out", leads=True)
        print(process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, done.stderr
    give_up_s = time.monotonic() + 20
    while Path(f"/proc/{int(done.stdout)}").exists():
        assert time.monotonic() < give_up_s
        time.sleep(0.02)


def test_a_signal_to_its_session_reaches_what_it_started(tmp_path: Path) -> None:
    words = ["-n1", "-r1", "import subprocess; subprocess.run(['sleep', '600'])"]
    process = ForkedProcess("timeit", words, folder=tmp_path, environment={}, output=tmp_path / "out", leads=True)
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
