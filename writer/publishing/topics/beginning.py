"""Where a generation of a log begins in its topic, after the records of others.

The metastore records where the topic ends when a generation begins. But the publisher of the previous generation does
not know of it yet, and may have a transaction open: one more transaction can come after these ends. So the generation's
first start, which fences all others, looks again, and reports to the metastore before the first record is sent.

A record of a snapshot after the generation's first one counts as the generation's own, whichever program sent it, and
so does a record that was sent before its commit. The log continues after the former (`writer.publishing.recovery`), and
readers identify the latter by their attempts.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lakelog.clock import Clock
from lakelog.errors import Unavailable
from lakelog.format.log.state import LogInfo
from lakelog.log.protocol import LogReader

from ..recovery import RecoveryFacts

_FETCHED: Final = 20_000
"""Records at a time."""

_FETCH_S: Final = 0.5
_STALL_S: Final = 30.0
"""How long brokers may return none of the records that they say they have."""


def may_begin_later(info: LogInfo, known: RecoveryFacts) -> bool:
    """Whether the generation may begin later than the metastore knows. Pure.

    This is possible only while nothing of it was published, in a topic that others may have written to since.
    """
    mirror = known.mirror
    is_new = known.position is None and (mirror.snapshot_id, mirror.next_index) == (info.starts_after, 0)
    return is_new and (info.is_named or info.generation > 1) and _begin_at_least(known) != known.ends


def find_beginning(info: LogInfo, known: RecoveryFacts, reader: LogReader, clock: Clock) -> tuple[int, ...]:
    """Where the generation's first record is or will be, by partition; reads what the metastore does not know.

    Blocks for as long as that takes: it reads one transaction of the previous generation, or what others wrote to a
    topic that the user named before anything of the table came.

    Args:
        info: The log.
        known: The facts after a restart.
        reader: Reads the topic.
        clock: For measuring.

    Raises:
        Unavailable: The brokers return nothing.
    """
    ends = np.array(known.ends, np.int64)
    begins = ends.copy()
    # By partition: how far partitions with an unknown beginning were read.
    left = {p: start for p, start in enumerate(_begin_at_least(known)) if start < known.ends[p]}
    reader.assign(left)
    since_s, passed = clock.monotonic_s(), 0
    while left:
        records = reader.fetch(_FETCHED, _FETCH_S)
        ids = records.snapshot_ids.fill_null(0).to_numpy(zero_copy_only=False)
        is_early = records.attempts.is_valid().to_numpy(zero_copy_only=False)
        is_own = (ids > info.starts_after) | is_early
        # Partitions with records after the known ends change nothing.
        np.minimum.at(begins, records.partitions[is_own], records.offsets[is_own])
        before, positions = left, reader.positions()
        # SUBTLE: no further than the first one. Records are sent before their commit (`eventual`) even while no one
        # publishes, and reading all of them would take longer than a step may.
        left = {p: positions[p] for p in before if begins[p] == ends[p] and positions[p] < ends[p]}
        passed += int(np.count_nonzero(~np.isin(records.partitions, list(left))))
        if left and passed > _FETCHED:
            # Nothing more of finished partitions.
            reader.assign(left)
            passed = 0
        if left != before:
            since_s = clock.monotonic_s()
        elif clock.monotonic_s() - since_s > _STALL_S:
            missing = sum(known.ends[p] - offset for p, offset in left.items())
            raise Unavailable(
                f"Where the log of {info.name} begins in the topic {info.topic} is not known: the brokers have handed "
                f"out nothing for {_STALL_S:g} s, though {missing} offsets are left. Look after them."
            )
    return tuple(begins.tolist())


def _begin_at_least(known: RecoveryFacts) -> tuple[int, ...]:
    """The beginning that the metastore knows, as far as it is retained."""
    mirrored = known.mirror.offsets
    return tuple(
        min(max(start, mirrored[partition] if partition < len(mirrored) else 0), end)
        for partition, (start, end) in enumerate(zip(known.starts, known.ends, strict=True))
    )
