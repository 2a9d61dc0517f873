"""Writer processes that are killed at every step of a commit, frozen while others take over, or doubled."""

from __future__ import annotations

import signal
import time

import pytest

from tests.e2e.faults.lab import Lab
from tests.e2e.faults.writer_process import KEYED, LOG, ROWS

pytestmark = pytest.mark.e2e

# The second table joins the attempt. Three buckets of one table and a file of the other: four files, in any order.
STEPS = ["stage 1", "staged 1", "stage 2", "staged 2", "file 1", "file 2", "file 3", "file 4", "written", "committed"]


@pytest.mark.parametrize("step", STEPS)
def test_a_writer_killed_at_any_step_leaves_nothing_half_done_and_its_successor_goes_on(lab: Lab, step: str) -> None:
    code = lab.run_writer("w", end_at=step)
    assert code == -signal.SIGKILL, "the fault did not take effect"
    before = lab.seen()
    assert bool(before) is (step == "committed"), "visible before its commit, or not after it"
    assert set(lab.orphans().values()) <= {"open", "aborted"}

    assert lab.run_writer("w", count=2) == 0
    outcomes = [event["outcome"] for event in lab.events("ends")]
    assert outcomes == ["repeated" if step == "committed" else "applied", "applied"]
    assert lab.check() == []
    assert sorted(len(snapshot.values) for snapshot in lab.seen()) == [ROWS] * 4
    # What the dead one wrote is the collector's to find; its successor left nothing.
    assert set(lab.orphans().values()) <= {"open", "aborted"}


def test_control_a_successor_that_takes_another_number_writes_twice(lab: Lab) -> None:
    lab.run_writer("w", end_at="committed")
    lab.run_writer("w", first=2)
    with lab.connect() as catalog:
        assert catalog.table(LOG).scan().count() == 2 * ROWS, "the protection is the number, so without it both stay"


@pytest.mark.parametrize("fence", [{"register": True}, {"lease": "ingest/w"}])
@pytest.mark.parametrize("at", ["staged 1", "file 2", "written"])
def test_a_frozen_writer_whose_identity_was_taken_over_is_fenced(lab: Lab, fence: dict[str, object], at: str) -> None:
    if "lease" in fence:
        fence = {"lease": f"ingest/{at}"}
    # A name of its own: who has ever registered may no longer commit without an epoch.
    zombie = lab.start_writer("fenced", first=7, label="z", freeze_at=at, **fence)
    zombie.wait_until_frozen()
    # A lease is taken over when it has run out (1 s), an epoch at once.
    time.sleep(1.2 if "lease" in fence else 0.0)
    assert lab.run_writer("fenced", first=1, **fence) == 0
    zombie.thaw()
    assert zombie.wait() == 0
    (late,) = [event for event in lab.events("ends") if event["identifier"] == 7]
    assert (late["outcome"], late["kind"]) == ("refused", "Fenced"), late
    assert lab.check() == []
    assert set(lab.orphans().values()) == set(), "the fenced one took its files back"


def test_control_without_a_fence_the_zombie_writes(lab: Lab) -> None:
    zombie = lab.start_writer("w", first=7, label="z", freeze_at="written")
    zombie.wait_until_frozen()
    assert lab.run_writer("w", first=1) == 0
    zombie.thaw()
    assert zombie.wait() == 0
    with lab.connect() as catalog:
        assert catalog.table(KEYED).scan().count() == 2 * ROWS


def test_a_zombie_with_the_number_of_its_successor_finds_its_work_done_and_takes_its_files_back(lab: Lab) -> None:
    zombie = lab.start_writer("w", label="z", freeze_at="written")
    zombie.wait_until_frozen()
    assert lab.run_writer("w") == 0
    zombie.thaw()
    assert zombie.wait() == 0
    assert [event["outcome"] for event in lab.events("ends")] == ["applied", "repeated"]
    with lab.connect() as catalog:
        values = catalog.table(LOG).scan().to_arrow().column("v").to_pylist()
    assert len(values) == ROWS
    assert not any(value.endswith("z") for value in values)
    assert lab.orphans() == {}


def test_two_writers_with_one_identity_at_once_apply_each_number_once(lab: Lab) -> None:
    twins = [lab.start_writer("w", count=12, label=label) for label in ("x", "y")]
    for twin in twins:
        assert twin.wait() == 0
    ends = lab.events("ends")
    assert len(ends) == 24
    for identifier in range(1, 13):
        outcomes = [event["outcome"] for event in ends if event["identifier"] == identifier]
        assert sorted(outcomes) == ["applied", "repeated"]
    with lab.connect() as catalog:
        for name in (KEYED, LOG):
            values = catalog.table(name).scan().to_arrow().column("v").to_pylist()
            assert sorted(value[:-1] for value in values) == sorted(
                f"w.{identifier}.{row}" for identifier in range(1, 13) for row in range(ROWS)
            )
            # One number's rows are all of the same twin, in both tables.
            labels = {value.split(".")[1] + value[-1] for value in values}
            assert len(labels) == 12
    assert lab.orphans() == {}
