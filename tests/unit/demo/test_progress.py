"""What the demo tells while the writer service works."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from lakelog.demo.story import Story
from lakelog.format.jobs.work import Pipeline


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_file_gets_a_line_now_and_then_and_a_terminal_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr("lakelog.demo.story.time", SimpleNamespace(sleep=sleep, monotonic=lambda: now_s))
    monkeypatch.setattr("lakelog.embedded.java.java_home", lambda environment: tmp_path)

    def list_pipelines() -> list[Pipeline]:
        if now_s < 15:
            return []
        ended, reads = now_s > 42, now_s > 25
        found = SimpleNamespace(
            name="flights",
            state="stopped" if ended else "running",
            position="7 of 366 files" if reads else "",
            total_rows=int(now_s) if reads else 0,
            last_batch_id=10_000,
            last_error="",
        )
        return [cast(Pipeline, found)]

    out = io.StringIO()
    stack = SimpleNamespace(target="127.0.0.1:1", add_service=lambda *_, **__: None)
    story = Story.__new__(Story)
    story._folder, story._console = tmp_path, Console(file=out, force_terminal=is_terminal, width=80)
    story._stack, story._catalog = (
        cast(Any, stack),
        cast(Any, SimpleNamespace(metastore=SimpleNamespace(list_pipelines=list_pipelines))),
    )
    counting = SimpleNamespace(start=lambda: None, numbers=lambda: SimpleNamespace(snapshot_id=0))
    story._counting, story._plain = cast(Any, counting), None
    story._run_pipeline(cast(Any, SimpleNamespace(snapshots=lambda: [1])))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    reported = [line for line in lines if line.startswith(("Spark is starting", "7 of 366 files"))]
    if is_terminal:
        assert reported == []
    else:
        assert reported == [
            "Spark is starting",
            "Spark is starting: no file is read yet",
            *(f"7 of 366 files, {s} rows" for s in (30, 40)),
        ]
