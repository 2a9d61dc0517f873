"""Programs that tests fork behave like programs that Python starts: output, exit code, environment, folder, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
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
