"""One simulated history, from a seed to what the auditors say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from lakelog.format.tables.table import TableName
from lakelog.log.memory import MemoryLog
from metastore.logs.brokers import Brokers
from metastore.memory.store import MemoryStore as MemoryCatalogStore
from metastore.ownership import EVERYONE
from metastore.use_cases import UseCases
from tests.simulation import actors, publishers, subscribers
from tests.simulation import emitters as changelog_emission
from tests.simulation.actors import Habits, World
from tests.simulation.alterers import alter
from tests.simulation.compactors import compact
from tests.simulation.expirers import expire, read_for_long
from tests.simulation.publishers import LogWorld
from tests.simulation.repairers import repair
from tests.simulation.scheduler import Actor, Scheduler
from tests.simulation.world import COMPACTING, CountedIds, Faults, SimulatedStores, VirtualClock


def simulate(
    seed: int,
    loop: asyncio.AbstractEventLoop,
    habits: Habits | None = None,
    *,
    readers: Mapping[str, str] | None = None,
    cache_folder: str | None = None,
    late_readers: float = 0.0,
    compactors: int = 0,
    expirers: int = 0,
    repairers: int = 0,
    emitters: int = 0,
    alterers: int = 0,
    log: LogWorld | None = None,
    **rates: float,
) -> World:
    """One history; raises what an actor or an auditor found.

    Args:
        seed: Decides everything.
        loop: That of the use cases.
        habits: What actors do.
        readers: Scan modes, by consumer.
        cache_folder: Where readers keep copies; it must be new.
        late_readers: How likely the successor of a reader comes only when its consumer has expired; 0: none expires.
        compactors: How many there are, which know nothing of each other.
        expirers: How many let snapshots expire; each comes with one that reads for long.
        repairers: How many there are, as well.
        emitters: How many compactors tell what has changed, in a table whose changelog is made so; with somebody who
            rolls back, and one who checks what was told.
        alterers: How many change the table's columns.
        log: The brokers of the table's log; then it has publishers.
        rates: How often what goes wrong.
    """
    faults = Faults(
        request_lost=rates.get("request_lost", 0.05),
        reply_lost=rates.get("reply_lost", 0.08),
        write_fails=rates.get("write_fails", 0.03),
        watch_breaks=rates.get("watch_breaks", 0.02),
    )
    scheduler = Scheduler(
        seed,
        kill_rate=rates.get("kill_rate", 0.01),
        freeze_rate=rates.get("freeze_rate", 0.01),
        on_death=lambda dead: _replace(world, dead, readers or {}, log),
    )
    clock = VirtualClock(scheduler)
    brokers = None if log is None else Brokers([[publishers.SERVERS]], lambda _: MemoryLog(log.cluster))
    store = MemoryCatalogStore(clock)
    use_cases = UseCases(store, "memory://warehouse", clock=clock, ids=CountedIds(), brokers=brokers)
    world = World(
        seed, scheduler, store, use_cases, loop, faults, SimulatedStores(scheduler, faults), 6, habits or Habits()
    )
    world.cache_folder, world.late_readers = cache_folder, late_readers
    # Commits are to come before, between and after changes of columns, and those take their time.
    world.writer_pause_s = 4.0 if alterers else 0.0
    world.finish(use_cases.catalog.create_database("sim"))
    options = {"bucket": "2"} | (changelog_emission.OPTIONS if emitters else {})
    if log is not None:
        options |= publishers.OPTIONS
        log.cluster.clock = clock
    if late_readers:
        options["consumer.expiration-time"] = f"{subscribers.CONSUMER_LIFETIME_S:g} s"
    world.finish(
        use_cases.catalog.create_table(
            TableName("sim", "t"), actors.SCHEMA, primary_key=["k"], options=options, by=EVERYONE
        )
    )
    for writer in ("a", "b", "c"):
        scheduler.start(writer, partial(actors.write, world, writer))
    for consumer, mode in (readers or {}).items():
        world.sinks[consumer] = actors.Sink()
        scheduler.start(consumer, partial(subscribers.read, world, consumer, mode))
    for name in COMPACTING[:compactors]:
        scheduler.start(name, partial(compact, world, name), mortal=False)
    for number in range(emitters):
        write = changelog_emission.plan_and_do
        scheduler.start(f"teller {number}", partial(compact, world, f"teller {number}", write), mortal=False)
    if emitters:
        scheduler.start("roller", partial(changelog_emission.roll_back, world), mortal=False)
        scheduler.start(
            "told auditor", partial(changelog_emission.check_now_and_then, world, again=expirers > 0), mortal=False
        )
    for number in range(expirers):
        scheduler.start(f"expirer{number}", partial(expire, world), mortal=False)
        scheduler.start(f"reader{number}", partial(read_for_long, world, f"reader{number}"), mortal=False)
    if log is not None:
        for name in publishers.PUBLISHING:
            scheduler.start(name, partial(publishers.publish, world, log, name))
        scheduler.start("disturber", partial(publishers.disturb, world, log), mortal=False)
        if log.restarts:
            scheduler.start("restarter", partial(publishers.restart, world, log), mortal=False)
    for number in range(alterers):
        scheduler.start(f"alterer {number}", partial(alter, world), mortal=False)
    for number in range(repairers):
        scheduler.start(f"repairer {number}", partial(repair, world), mortal=False)
    scheduler.start("overwriter", lambda: actors.overwrite(world), mortal=False)
    scheduler.start("collector", lambda: actors.collect(world), mortal=False)
    scheduler.start("auditor", lambda: actors.audit_now_and_then(world, again=expirers > 0), mortal=False)
    scheduler.run()
    if emitters:
        changelog_emission.emit_the_rest(world)
    actors.audit(world)
    subscribers.audit(world)
    world.finish(use_cases.close())
    return world


def _replace(world: World, dead: Actor, readers: Mapping[str, str], log: LogWorld | None) -> None:
    """Whoever is killed or frozen gets a successor under the same name."""
    name = dead.name.split("#")[0]
    world.successors += 1
    if name in readers:
        body = partial(subscribers.read, world, name, readers[name])
    elif log is not None and name in publishers.PUBLISHING:
        body = partial(publishers.publish, world, log, name)
    else:
        body = partial(actors.write, world, name)
    world.scheduler.start(f"{name}#{world.successors}", body, mortal=world.successors < 12 + 6 * len(readers))
