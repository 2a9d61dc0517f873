"""Instances that wait, are killed and come back: the lease of a dead one need not run out, that of a living one must.

Leases last an hour here: a process that waited for the end of one would not be done before the test's time-out.
"""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from lakelog.serving.streams.checkpoint_lock import FILE_NAME
from tests.e2e.writer.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

AN_HOUR = ("--lease-seconds", "3600")


@pytest.mark.parametrize("step", ["written", "committed"])
def test_a_standby_takes_over_from_a_killed_one(world: World, step: str) -> None:
    """Killed before the commit of a batch, or after it and before anything knows of it; neither loses nor doubles."""
    world.write_pipeline(trigger="{interval: 100 ms}")
    world.add_files(2)
    first = world.start(*AN_HOUR, fault=f"{step}:1")
    world.until(lambda: world.snapshots() == 1)
    second = world.start(*AN_HOUR)
    world.until(lambda: "waiting for the lease" in second.text())
    world.add_files(2)
    assert first.wait() == -signal.SIGKILL, first.text()
    world.until(lambda: len(world.ids()) >= world.next_row)
    world.add_files(2)
    world.until(lambda: len(world.ids()) >= world.next_row)
    assert world.has_all_rows_once()
    assert world.snapshots() == 3
    assert "lease of a dead instance released" in second.text()
    report = world.pipeline()
    assert report is not None
    assert (report.state, report.holder.split()[-1]) == ("running", str(second.process.pid))
    second.send(signal.SIGTERM)
    assert second.wait() == 0, second.text()


def test_one_that_was_killed_goes_on_at_once_if_it_finds_its_own_checkpoint(world: World) -> None:
    """And the controls: a checkpoint without what the dead one wrote, and another checkpoint of the same name."""
    world.write_pipeline()
    world.add_files(4)
    killed = world.start(*AN_HOUR, fault="written:1")
    assert killed.wait() == -signal.SIGKILL, killed.text()

    lock = world.folder / "state" / FILE_NAME
    lock.rename(world.folder / FILE_NAME)
    without = world.start("--no-wait")
    assert without.wait() == 5, without.text()
    (world.folder / "state").rename(world.folder / "other")
    elsewhere = world.start("--no-wait")
    assert elsewhere.wait() == 5, elsewhere.text()

    remove_unused(world.folder / "state")
    (world.folder / "other").rename(world.folder / "state")
    (world.folder / FILE_NAME).rename(lock)
    again = world.start(*AN_HOUR)
    assert again.wait() == 0, again.text()
    assert world.has_all_rows_once()
    assert world.snapshots() == 2


def test_two_of_one_name_do_not_take_the_lease_from_each_other(world: World) -> None:
    """The second one waits; told to stop, it ends in good order, and the first one has noticed nothing.

    One whose Spark has died waits no longer.
    """
    file = world.write_pipeline(trigger="{interval: 100 ms}")
    world.add_files(2)
    first = world.start(*AN_HOUR)
    world.until(lambda: world.snapshots() == 1)
    # By mistake with a checkpoint of its own, too, in which no one has the lock.
    file.write_text(file.read_text().replace("checkpoint: ./state", "checkpoint: ./mine"))
    stranger = world.start(*AN_HOUR)
    world.write_pipeline(trigger="{interval: 100 ms}")
    twin = world.start(*AN_HOUR)
    world.until(lambda: all("waiting for the lease" in waiting.text() for waiting in (stranger, twin)))
    twin.send(signal.SIGTERM)
    assert twin.wait() == 0, twin.text()
    assert "stopped before the lease was taken" in twin.text()
    (java,) = (child for child in psutil.Process(stranger.process.pid).children() if child.name() == "java")
    java.kill()
    assert stranger.wait() == 1, stranger.text()
    assert "Java of Spark has ended with exit code -9" in stranger.text()
    world.add_files(2)
    world.until(lambda: len(world.ids()) >= world.next_row)
    assert world.has_all_rows_once()
    assert "lost" not in first.text()
    first.send(signal.SIGTERM)
    assert first.wait() == 0, first.text()


def remove_unused(folder: Path) -> None:
    """Removes a checkpoint in which nothing was begun."""
    (folder / FILE_NAME).unlink()
    folder.rmdir()
