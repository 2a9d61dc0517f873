"""Files of kilobytes that unpack to gigabytes: whatever reads them stays within its memory, and so does legal data.

Each work runs in a process of its own, whose largest memory is measured. The libraries alone take some 150 MB of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tables.hostile_files import HOSTILE, ROWS, VALUE_BYTES, run, to_live, write_hostile

MOST_MB = 1200
"""What is allowed; most work takes half of it."""

HARM_MB = 1600
"""What the same work takes at least without the protection: what most of the rows take."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for form in HOSTILE:
        made[form] = tmp_path_factory.mktemp(form)
        write_hostile(made[form], form)
    return made


def test_the_files_are_small(folders: dict[str, Path]) -> None:
    sizes = {form: to_live(folder, 1).size_bytes for form, folder in folders.items()}
    assert sizes["dictionary"] < 5000
    assert max(sizes.values()) < 600_000
    assert ROWS * VALUE_BYTES >> 20 == 2000


@pytest.mark.parametrize("form", HOSTILE)
def test_two_rows_are_read_alone(folders: dict[str, Path], form: str) -> None:
    result = run(folders[form], form, "scan_by_limit")
    assert (result.rows, result.error) == (2, "")
    assert result.peak_mb < 500


@pytest.mark.parametrize("form", HOSTILE)
def test_all_rows_are_read_a_few_at_a_time(folders: dict[str, Path], form: str) -> None:
    result = run(folders[form], form, "scan")
    assert (result.rows, result.error) == (2 * ROWS, "")
    assert result.peak_mb < MOST_MB


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dictionary", "plain_pages"])
def test_control_all_rows_at_once_take_all_the_memory(folders: dict[str, Path], form: str) -> None:
    assert run(folders[form], form, "scan_one_file").peak_mb < MOST_MB
    assert run(folders[form], form, "scan_one_file", unprotected=True).peak_mb > HARM_MB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "work", "rows"),
    [
        ("dictionary", "merge_on_read", ROWS),
        ("dictionary", "compact", ROWS),
        ("dictionary", "compact_appended", 2 * ROWS),
        ("dictionary", "build_deletion_vectors", ROWS),
        ("dictionary", "look_up", 2 * ROWS),
        ("dictionary_in_map", "compact", ROWS),
        ("plain_pages", "compact", ROWS),
    ],
)
def test_rows_are_merged_rewritten_and_looked_up_a_few_at_a_time(
    folders: dict[str, Path], form: str, work: str, rows: int
) -> None:
    result = run(folders[form], form, work)
    assert (result.rows, result.error) == (rows, "")
    assert result.peak_mb < MOST_MB
