"""Logs of children stay small, and what they say stays whole."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakelog.embedded.log_rotation import rotate_logs


def parts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_large_log_is_put_aside_and_the_oldest_part_goes(tmp_path: Path) -> None:
    log = tmp_path / "metastore.log"
    (tmp_path / "small.log").write_text("small")
    (tmp_path / "other.txt").write_text("x" * 100)
    for text in "abcd":
        log.write_text(text * 11)
        rotate_logs(tmp_path, max_bytes=10, kept=2)
    assert parts(tmp_path) == {
        "metastore.log": "",
        "metastore.log.1": "d" * 11,
        "metastore.log.2": "c" * 11,
        "small.log": "small",
        "other.txt": "x" * 100,
    }


def test_who_writes_goes_on_at_the_beginning(tmp_path: Path) -> None:
    log = tmp_path / "writer.log"
    program = "import sys\nfor line in sys.stdin: print(line.strip() * 20, flush=True)"
    with (
        log.open("ab") as file,
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=file, text=True) as child,
    ):
        assert child.stdin is not None
        for letter in "abc":
            child.stdin.write(f"{letter}\n")
            child.stdin.flush()
            until_s = time.monotonic() + 20
            while not log.read_text().endswith(letter * 20 + "\n"):
                assert time.monotonic() < until_s
                time.sleep(0.01)
            rotate_logs(tmp_path, max_bytes=10, kept=3)
    assert parts(tmp_path) == {
        "writer.log": "",
        **{f"writer.log.{number}": letter * 20 + "\n" for number, letter in enumerate("cba", 1)},
    }


def test_nothing_is_cut_that_could_not_be_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.log"
    log.write_text("x" * 11)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", fail)
    rotate_logs(tmp_path, max_bytes=10)
    assert parts(tmp_path) == {"a.log": "x" * 11}
