"""Where a generation of a log begins in its topic, behind what others have written to it.

The metastore writes down where the topic ends when a generation is begun, but who publishes the one before it does not
know yet, and may have a transaction open: one more can land behind these ends. So the generation's first fresh start,
which fences all others, looks once more, and the metastore is told before the first record is sent.

A record of a snapshot behind the generation's first one counts as the generation's own, whoever sent it, and so does
what was sent before its commit: the log goes on behind the first (`writer.publishing.recovery`), readers know the
second by their attempts.
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
"""So long brokers may hand out nothing of what they say they have."""


def may_begin_later(info: LogInfo, known: RecoveryFacts) -> bool:
    """Whether the generation may begin behind where the metastore knows it to begin. Pure.

    Only while nothing of it was published, in a topic that others may have written to since.
    """
    mirror = known.mirror
    is_new = known.position is None and (mirror.snapshot_id, mirror.next_index) == (info.starts_after, 0)
    return is_new and (info.is_named or info.generation > 1) and _begin_at_least(known) != known.ends


def find_beginning(info: LogInfo, known: RecoveryFacts, reader: LogReader, clock: Clock) -> tuple[int, ...]:
    """Where the generation's first record stands or will stand, by partition; reads what the metastore does not know.

    Blocks for as long as that takes: it is one transaction of the generation before, or what others wrote to a topic
    that the user named before anything of the table came.

    Args:
        info: The log.
        known: What was found behind a fresh start.
        reader: Of the topic.
        clock: For measuring.

    Raises:
        Unavailable: The brokers hand out nothing.
    """
    ends = np.array(known.ends, np.int64)
    begins = ends.copy()
    # By partition: how far those were read of which the beginning is not known.
    left = {p: start for p, start in enumerate(_begin_at_least(known)) if start < known.ends[p]}
    reader.assign(left)
    since_s, passed = clock.monotonic_s(), 0
    while left:
        records = reader.fetch(_FETCHED, _FETCH_S)
        ids = records.snapshot_ids.fill_null(0).to_numpy(zero_copy_only=False)
        is_early = records.attempts.is_valid().to_numpy(zero_copy_only=False)
        is_own = (ids > info.starts_after) | is_early
        # Those behind the ends that are known move nothing.
        np.minimum.at(begins, records.partitions[is_own], records.offsets[is_own])
        before, positions = left, reader.positions()
        # SUBTLE: no further than the first one. What is sent before its commit (`eventual`) goes on while nobody
        # publishes, and to read all of it would take longer than a step may.
        left = {p: positions[p] for p in before if begins[p] == ends[p] and positions[p] < ends[p]}
        passed += int(np.count_nonzero(~np.isin(records.partitions, list(left))))
        if left and passed > _FETCHED:
            # Nothing more of those that are done.
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
    """What the metastore knows of the beginning, as far as it is kept."""
    mirrored = known.mirror.offsets
    return tuple(
        min(max(start, mirrored[partition] if partition < len(mirrored) else 0), end)
        for partition, (start, end) in enumerate(zip(known.starts, known.ends, strict=True))
    )
