"""What counts as written for the first time: it tells how often compactions write the same bytes."""

from __future__ import annotations

import pytest

from compactor.compactions.bucket_work import count_new_bytes
from lakelog.storage.parquet.live_file import LiveFile


@pytest.mark.parametrize(
    ("level", "added", "deletion_vector_path", "is_new"),
    [
        (0, 3, None, True),
        (0, 3, "p", True),
        (0, 7, "p", True),
        (0, 7, None, False),
        (5, 7, None, False),
        (5, 7, "p", False),
    ],
    ids=["written", "looked up", "marked", "of an append table", "compacted", "compacted and marked"],
)
def test_a_file_is_new_until_a_compaction_takes_it(
    level: int, added: int, deletion_vector_path: str | None, is_new: bool
) -> None:
    file = LiveFile(1, "a", b"", 0, level, 9, 0, 100, None, None, 0, added, 3, 0, 0, deletion_vector_path)
    assert count_new_bytes([file, file]) == 200 * is_new
