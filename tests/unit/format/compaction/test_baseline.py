"""Which files a full compaction tells of, and in which parts, as pictures (see pictures.py): a line `T` has told files.

A letter of both is a file that is live and was told; one of a line `T` alone was told and is not live any more.
"""

from __future__ import annotations

import pytest

from lakelog.format.compaction.baseline import EmissionPart, plan_emission
from lakelog.format.compaction.bucket_plan import plan_full
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.merge.sections import KeyRange
from tests.unit.format.compaction.pictures import SETTINGS, parse, to_files


def plan(live: str, baseline: str) -> list[str]:
    """The parts as `inputs>moved -told`, by the names of the files."""
    painted = parse(live) if live.strip() else ()
    ids = {file.name: file.file_id for file in painted}
    ranges = {}
    for number, file in enumerate(parse(baseline) if baseline.strip() else (), 100):
        ids.setdefault(file.name, number)
        ranges[ids[file.name]] = KeyRange(bytes([file.first]), bytes([file.last]))
    names = {file_id: name for name, file_id in ids.items()}
    files = to_files(painted) if painted else None
    found = NoPlan("No files.") if files is None else plan_full(files, SETTINGS, why="Asked.")
    return [show(part, names) for part in plan_emission(files, found, ranges)]


def show(part: EmissionPart, names: dict[int, str]) -> str:
    moved = "" if part.moved is None else f">{names[part.moved]}"
    baseline = "".join(sorted(names[each] for each in part.baseline))
    assert part.why
    return f"{''.join(sorted(names[each] for each in part.inputs))}{moved} -{baseline}"


@pytest.mark.parametrize(
    ("live", "baseline", "expected"),
    [
        pytest.param("L0  aaa.....", "", [">a -"], id="the first one: a large file only moves"),
        pytest.param(
            """
            L0  aaa.....
            L2  bbbbb.cc
            """,
            "T0  bbbbb.cc",
            ["ab -b"],
            id="what was told and stays is not looked at",
        ),
        pytest.param("L2  aaaa", "T0  aaaa", [], id="nothing is to be told"),
        pytest.param("L2  aaaa", "", ["a -"], id="what is at the highest level and was not told is"),
        pytest.param("", "T0  xxx.yyy", [" -x", " -y"], id="an overwrite left nothing"),
        pytest.param("L0  aaa.......", "T0  .....xx.yy", [">a -", " -x", " -y"], id="it left other keys"),
        pytest.param("L0  aaaa.....", "T0  ..xxx.yyy", ["a -x", " -y"], id="a file that would move is compared"),
        pytest.param(
            """
            L0  aaa...bbb
            """,
            "T0  ..xxxxx..",
            ["ab -x"],
            id="what was told joins files that would have been apart",
        ),
        pytest.param(
            """
            L2  aaa......
            L2  ...bbbccc
            """,
            "T0  ...bbbccc",
            ["a -"],
            id="a rollback brought a file back beside those that were told",
        ),
        pytest.param("L1  aaa...", "T0  aaa...", [">a -a"], id="what was told moves on to a new highest level"),
    ],
)
def test_parts(live: str, baseline: str, expected: list[str]) -> None:
    assert plan(live, baseline) == expected
