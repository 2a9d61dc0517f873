"""What `lakelog up` says about its pipelines and about components that ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.cli.up.up import check_pipeline_files, find_last_words
from lakelog.errors import InvalidArgument


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ['{"level": "error", "event": "failed", "error": "no table"}', '{"level": "info", "outcome": "OK"}'],
            "no table",
        ),
        (['{"level": "info", "outcome": "OK"}'], None),
        (["Traceback:", "MemoryError", ""], "MemoryError"),
        ([], None),
    ],
)
def test_last_words_show_why_something_ended(lines: list[str], words: str | None) -> None:
    assert find_last_words(lines) == words


def test_pipeline_files_are_checked_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: 1st\n")
    (tmp_path / "b.yaml").write_text("nonsense\n")
    with pytest.raises(InvalidArgument) as refused:
        check_pipeline_files([tmp_path / "a.yaml", tmp_path / "b.yaml"])
    lines = refused.value.message.splitlines()
    assert lines[0].startswith("Nothing was started")
    assert any(line.startswith(f"{tmp_path / 'a.yaml'}:1:7: name: '1st'") for line in lines)
    assert any(line.startswith(f"{tmp_path / 'b.yaml'}") for line in lines)
    check_pipeline_files([])
