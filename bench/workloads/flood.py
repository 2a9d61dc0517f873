"""FLOOD of BENCH."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.context import Bench
from bench.flood.abuses import ABUSES, Abuse
from bench.flood.large_work import LARGE_WORK
from bench.flood.measuring import Fill, leave_empty, measure_abuse
from bench.flood.streams import STREAMS
from bench.measure import Figure

# Functions that fill the table of an abuse, if it needs more than the table of the others.
_FILLS: dict[str, Fill] = {"idle-watches": leave_empty, **dict.fromkeys((*LARGE_WORK, *STREAMS), leave_empty)}

TITLE = "light calls while another client abuses the metastore"


def _part(name: str, abuse: Abuse) -> Callable[[Bench], Iterator[Figure]]:
    return lambda bench: measure_abuse(bench, name, abuse, _FILLS.get(name))


PARTS = {name: _part(name, abuse) for name, abuse in {**ABUSES, **LARGE_WORK, **STREAMS}.items()}
