"""A support bundle is there as a whole or not at all."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lakelog.cli.bundle import writing
from lakelog.cli.bundle.writing import FOLDER, write_bundle
from lakelog.cli.doctor.situation import Situation
from lakelog.cli.invocation import Invocation
from lakelog.errors import AlreadyExists, LakelogError, Unavailable


@pytest.fixture
def situation(tmp_path: Path) -> Situation:
    return Situation(Invocation(target="127.0.0.1:1", target_given=True), {}, tmp_path / "data")


def hold_parts(monkeypatch: pytest.MonkeyPatch, describe: Any) -> None:
    parts = {"first.json": ("the first", lambda _: {"a": 1}), "second.json": ("the second", describe)}
    monkeypatch.setattr(writing, "_PARTS", parts)


def test_ctrl_c_leaves_nothing(situation: Situation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []

    def interrupt(_: Situation) -> NoReturn:
        (unfinished,) = tmp_path.iterdir()
        modes.append(unfinished.stat().st_mode & 0o777)
        raise KeyboardInterrupt

    hold_parts(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_bundle(tmp_path / "x.tar.gz", situation)
    assert (modes, list(tmp_path.iterdir())) == ([0o600], [])


@pytest.mark.parametrize("error", [Unavailable("it is away, password=hunter2hunter2"), KeyError("hunter2hunter2=x")])
def test_a_part_that_fails_leaves_only_itself_out(
    situation: Situation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: Situation) -> NoReturn:
        raise error

    hold_parts(monkeypatch, fail)
    manifest = write_bundle(tmp_path / "x.tar.gz", situation)
    assert [each["name"] for each in manifest.files] == ["first.json"]
    assert [each["name"] for each in manifest.left_out] == ["second.json", "logs"]
    assert "password=hunter2" not in manifest.left_out[0]["why"]
    with tarfile.open(tmp_path / "x.tar.gz") as tar:
        assert tar.getnames() == [f"{FOLDER}/first.json", f"{FOLDER}/manifest.json"]
        assert {each.mode for each in tar} == {0o600}


def test_no_file_is_overwritten(situation: Situation, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_text("mine")
    with pytest.raises(AlreadyExists, match="choose another file"):
        write_bundle(tmp_path / "x.tar.gz", situation)
    with pytest.raises(LakelogError, match="cannot be written"):
        write_bundle(tmp_path / "no folder" / "x.tar.gz", situation)
