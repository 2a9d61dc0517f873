"""The file of a support bundle: whole or not there, whatever another command or a full disk does."""

from __future__ import annotations

import errno
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from lakelog.cli.bundle import writing
from lakelog.cli.doctor.situation import Situation
from lakelog.cli.invocation import Invocation
from lakelog.errors import AlreadyExists, LakelogError


@pytest.fixture
def situation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Situation:
    monkeypatch.setattr(writing, "_PARTS", {"a.json": ("a part", lambda _: {"a": 1})})
    return Situation(Invocation(target="127.0.0.1:1", target_given=True), {}, tmp_path / "data")


def test_a_bundle_is_for_its_owner_alone(tmp_path: Path, situation: Situation) -> None:
    writing.write_bundle(tmp_path / "x.tar.gz", situation)
    assert stat.S_IMODE((tmp_path / "x.tar.gz").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz"]


def test_two_commands_at_once_make_one_whole_bundle(
    tmp_path: Path, situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.tar.gz"

    def make_another(_: Any) -> dict[str, Any]:
        monkeypatch.setattr(writing, "_PARTS", {"b.json": ("of the other one", lambda _: {"b": 1})})
        writing.write_bundle(path, situation)
        return {}

    monkeypatch.setattr(writing, "_PARTS", {"a.json": ("a part", make_another)})
    with pytest.raises(AlreadyExists):
        writing.write_bundle(path, situation)
    with tarfile.open(path) as tar:
        assert tar.getnames() == ["lakelog-support/b.json", "lakelog-support/manifest.json"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_no_file(tmp_path: Path, situation: Situation, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "_add", fail)
    with pytest.raises(LakelogError, match="No space left"):
        writing.write_bundle(tmp_path / "x.tar.gz", situation)
    with pytest.raises(LakelogError, match="cannot be written"):
        writing.write_bundle(tmp_path / "none" / "x.tar.gz", situation)
    assert list(tmp_path.iterdir()) == []
