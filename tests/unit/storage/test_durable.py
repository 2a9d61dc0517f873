"""Having the disk keep what was written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lakelog.storage.objects.durable import synchronise


def fail_with(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)


def test_a_file_system_that_synchronises_no_folders_is_borne(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x"
    file.touch()
    fail_with(errno.EINVAL, monkeypatch)
    synchronise(tmp_path)
    with pytest.raises(OSError, match="Invalid argument"):
        synchronise(file)


def test_a_disk_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(errno.EIO, monkeypatch)
    with pytest.raises(OSError, match="Input/output error"):
        synchronise(tmp_path)
