"""Runs a soak: a real metastore that dies, connections that are cut, and at the end the comparison."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa

import lakelog
from bench.soak.readers import MODES, SoakError, SoakReader
from bench.soak.tables import DATABASE, SCHEMA, TABLES, TOGETHER
from bench.soak.together import TogetherReader
from bench.soak.writers import SoakWriter
from lakelog.sdk.catalog import Catalog
from lakelog.testing import EmbeddedStack
from lakelog.testing.proxy import TcpProxy

_WRITERS: Final = 3
_COMPACTORS: Final = ("compactor", "compactor-2")
_FAULT_EVERY_S: Final = 2.0
_KILL_EVERY_S: Final = 12.0
_CATCH_UP_S: Final = 180.0


@dataclass(frozen=True)
class SoakReport:
    """What happened.

    Args:
        commits: Of all writers.
        repeats: Calls that had to be made again.
        batches: That readers were handed.
        comebacks: How often readers died and came back.
        handed_again: Batches that a reader knew already when it came back.
        fenced: Readers that were found to be taken over.
        kills: Of the metastore and of compactors.
        cuts: Of connections.
    """

    commits: int
    repeats: int
    batches: int
    comebacks: int
    handed_again: int
    fenced: int
    kills: int
    cuts: int


def soak(
    folder: Path,
    seconds: float,
    seed: int,
    say: Callable[[str], None],
    stack_type: type[EmbeddedStack] = EmbeddedStack,
) -> SoakReport:
    """Runs a soak.

    Args:
        folder: For the stack.
        seconds: How long the writers write.
        seed: Decides what is written, who dies when and what fails; not who comes first.
        say: Told of progress.
        stack_type: How services are started.

    Raises:
        SoakError: A reader was told what does not fit, or knows other rows than its table has; with the seed.
    """
    services = ["metastore", "compactor"]
    with stack_type(folder / "stack", services=services) as stack, TcpProxy(stack.port) as proxy:
        stack.add_compactor(_COMPACTORS[1])
        with lakelog.connect(stack.target) as catalog:
            _make_tables(catalog)
        stop, ended = threading.Event(), threading.Event()
        random = Random(seed)
        writers = [SoakWriter(proxy.target, f"w{i}", random.randrange(1 << 30), stop) for i in range(_WRITERS)]
        readers = [
            SoakReader(proxy.target, table, mode, random.randrange(1 << 30), ended)
            for table in TABLES
            for mode in random.sample([*MODES, "changes"], 3)
        ]
        together = TogetherReader(proxy.target, TOGETHER, random.randrange(1 << 30), ended)
        everybody: list[SoakReader | TogetherReader] = [*readers, together]
        runs = [*(each.run for each in writers), *(each.run for each in everybody)]
        threads = [threading.Thread(target=run, daemon=True) for run in runs]
        for thread in threads:
            thread.start()
        kills = _break_things(stack, proxy, random, seconds, say)
        stop.set()
        proxy.heal()
        _join(threads[: len(writers)], "writers", seed)
        for writer in writers:
            if writer.error is not None:
                raise SoakError(f"Seed {seed}: a writer ended with {writer.error!r}") from writer.error
        ended.set()
        _join(threads[len(writers) :], "readers", seed)
        with lakelog.connect(stack.target) as catalog:
            _compare(catalog, readers, together, seed)
        return SoakReport(
            sum(each.commits for each in writers),
            sum(each.repeats for each in writers),
            sum(each.batches for each in everybody),
            sum(each.comebacks for each in everybody),
            sum(each.handed_again for each in everybody),
            sum(each.fenced for each in everybody),
            kills,
            proxy.cuts,
        )


def _make_tables(catalog: Catalog) -> None:
    catalog.create_database(DATABASE)
    for table in TABLES:
        made = catalog.create_table(
            table.full_name, SCHEMA, primary_key=["k"] if table.keyed else [], options=table.all_options
        )
        # A snapshot to begin with, which some modes need.
        made.append(pa.Table.from_pylist([{"k": -1, "v": 0, "s": None}], schema=SCHEMA))


def _break_things(
    stack: EmbeddedStack, proxy: TcpProxy, random: Random, seconds: float, say: Callable[[str], None]
) -> int:
    """Cuts, delays and kills until the time is over; returns how often a service was killed."""
    begun_s = time.monotonic()
    kills = 0
    faults = (
        proxy.cut,
        lambda: proxy.cut_after(random.randrange(1, 20_000), "answers"),
        lambda: proxy.cut_after(random.randrange(1, 20_000), "requests"),
        lambda: proxy.delay(0.05),
        proxy.lose_answers,
    )
    while (passed_s := time.monotonic() - begun_s) < seconds:
        time.sleep(min(_FAULT_EVERY_S, seconds - passed_s))
        if passed_s > (kills + 0.5) * _KILL_EVERY_S:
            killed = "metastore" if kills % 2 == 0 else random.choice(_COMPACTORS)
            stack.kill(killed)
            time.sleep(0.3)
            stack.restart(killed)
            kills += 1
            say(f"{passed_s:.0f} s: the {killed} was killed")
            continue
        random.choice(faults)()
        time.sleep(0.3)
        proxy.heal()
    return kills


def _join(threads: list[threading.Thread], who: str, seed: int) -> None:
    give_up_s = time.monotonic() + _CATCH_UP_S
    for thread in threads:
        thread.join(max(0.0, give_up_s - time.monotonic()))
        if thread.is_alive():
            raise SoakError(f"Seed {seed}: {who} did not end within {_CATCH_UP_S:g} s.")


def _compare(catalog: Catalog, readers: list[SoakReader], together: TogetherReader, seed: int) -> None:
    for reader in readers:
        try:
            reader.compare(catalog.table(reader.table.full_name))
        except SoakError as error:
            raise SoakError(f"Seed {seed}: {error}") from error
    try:
        together.compare(catalog)
    except SoakError as error:
        raise SoakError(f"Seed {seed}: {error}") from error
