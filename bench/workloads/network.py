"""NETWORK: each pair of services, with connections that lose data in one direction, are half open, reset, late or slow.

Each figure is the time from the fault to the end of the next unit of work: a commit, a row at a subscriber, a
compaction, or a published snapshot. It includes noticing the fault, and a new connection. The parts are the pairs of
services.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from bench.context import Bench
from bench.faults.lost_packets import SIDES
from bench.faults.network import NetworkFault
from bench.faults.network_pairs import NetworkLabError, Pair, running_pairs
from bench.measure import Figure, WrongAnswerError, absolute

TITLE = "connections that go silent, half open, late or slow between each pair of services"

NOTICED_WITHIN_S: Final = 60.0
"""A commit in the middle of a fault waits for a deadline, and its repetition for a new connection."""


def _run(pairs: Sequence[Pair], bench: Bench) -> Iterator[Figure]:
    with running_pairs(bench.folder, pairs) as lab:
        for pair in pairs:
            for fault in NetworkFault:
                try:
                    cell = lab.run(pair, fault)
                except NetworkLabError as error:
                    raise WrongAnswerError(str(error)) from error
                bench.console.print(f"  {pair.value}, {fault.value}: {cell.seconds:.1f} s")
                yield absolute(f"{pair.value}: {fault.value}", "s", [cell.seconds], target=NOTICED_WITHIN_S)


def _lose_packets(bench: Bench) -> Iterator[Figure]:
    for direction in SIDES:
        command = ["unshare", "--net", sys.executable, "-m", "bench.faults.lost_packets", direction]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        what = f"metastore to Postgres: packets of {direction} are lost"
        yield absolute(f"{what}, noticed", "s", [found["noticed_s"]], target=NOTICED_WITHIN_S)
        yield absolute(f"{what}, the server's process ended", "s", [found["ended_s"]], target=NOTICED_WITHIN_S)


PARTS: Final[dict[str, Callable[[Bench], Iterator[Figure]]]] = {
    "client": partial(_run, (Pair.CLIENT_METASTORE, Pair.METASTORE_POSTGRES)),
    "reader": partial(_run, (Pair.READER_METASTORE, Pair.CLIENT_READER)),
    "compactor": partial(_run, (Pair.COMPACTOR_METASTORE,)),
    "publisher": partial(_run, (Pair.PUBLISHER_METASTORE,)),
    "packets": _lose_packets,
    "kafka": partial(_run, (Pair.KAFKA,)),
}
