"""Names of what tasks of a compaction write: a task that runs twice never meets files of its own name."""

from __future__ import annotations

from compactor.compactions.tasks import with_suffix
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.rewrite.append import FileRewrite
from lakelog.storage.rewrite.full import EmissionRewrite
from lakelog.storage.rewrite.runs import RunRewrite

FILE = LiveFile(7, "data/a/b.parquet", b"", 0, 0, 1, 0, 10, None, None, 0, 1, 1, 0, 1000)


def test_all_that_a_rewrite_is_made_of_is_renamed_and_nothing_else() -> None:
    runs = RunRewrite("compact-00003", (FILE,), (FILE,), 5, 2)
    named = with_suffix(runs, "-41")
    assert named == RunRewrite("compact-00003-41", (FILE,), (FILE,), 5, 2)
    assert with_suffix(FileRewrite("compact-00000", (FILE,)), "-1") == FileRewrite("compact-00000-1", (FILE,))
    assert with_suffix(EmissionRewrite("tell-1", runs, FILE, (FILE,)), "-41") == EmissionRewrite(
        "tell-1-41", named, FILE, (FILE,)
    )
    assert with_suffix(EmissionRewrite("tell-1", None, None, ()), "-2") == EmissionRewrite("tell-1-2", None, None, ())
