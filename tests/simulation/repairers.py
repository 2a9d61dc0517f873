"""Who repairs in the simulation: the SDK's own check, without patience, while all others are at work."""

from __future__ import annotations

from lakelog.errors import OutcomeUnknown, Unavailable
from lakelog.sdk.maintenance.checking.file_check import check_files
from tests.simulation.actors import TABLE, World
from tests.simulation.world import VirtualClock

_ROUNDS = 40


def repair(world: World) -> None:
    """Checks the table's files and deletes what nothing refers to, in small pages, again and again."""
    dice = world.scheduler.random
    catalog = world.catalog()
    store = world.stores.open(world.auditing_catalog().table(TABLE).location)
    for _ in range(_ROUNDS):
        world.scheduler.sleep(dice.uniform(0, 0.3))
        try:
            found = check_files(
                catalog.metastore,
                store,
                catalog.table(TABLE).info,
                repair=True,
                older_than_ms=dice.choice((0, 0, 500)),
                clock=VirtualClock(world.scheduler),
                page_size=dice.choice((4, 1000)),
            )
        except (Unavailable, OutcomeUnknown):
            continue  # What was deleted until then is deleted.
        assert found.broken == (), f"the table lacks {found.broken}"
        world.repairs.append(found)
