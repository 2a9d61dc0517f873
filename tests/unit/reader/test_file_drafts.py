"""Whose drafts a stream that writes files may delete."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reader.streams.sinks import _FilesSink


def test_what_a_successor_writes_is_not_touched(tmp_path: Path) -> None:
    names = (".writing-1-7-a", ".writing-2-7-b", ".writing-3-7-c", ".writing-cut", "batch=000000000006")
    for name in names:
        (tmp_path / name).mkdir()
    stream: Any = None
    lease: Any = SimpleNamespace(epoch=2)
    _FilesSink(stream, lease)._clear(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".writing-3-7-c", "batch=000000000006"}
