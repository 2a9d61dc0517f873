"""The answers of planning: a plan, which is data, or none with a reason."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from lakelog.format.commit.facts import OrderKey


class Rule(enum.Enum):
    """The rule, or request, that makes a compaction due (semantics 6.1)."""

    REQUESTED = "a full compaction was asked for"
    INTERVAL = "time since the last full compaction"
    TOTAL_SIZE = "size of the bucket"
    INCREMENTAL_SIZE = "size above the highest level"
    SIZE_AMPLIFICATION = "size amplification"
    SIZE_RATIO = "size ratio"
    RUN_COUNT = "number of sorted runs"
    LEVEL_0 = "files of level 0"


@dataclass(frozen=True)
class Finding:
    """Why a rule found nothing to do: one sentence without its full stop."""

    rule: Rule
    why: str


@dataclass(frozen=True)
class NoPlan:
    """Nothing is to be done.

    Args:
        reason: The reason, in a sentence for people.
        findings: The finding of each rule that was checked, in order; may be empty.
    """

    reason: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Section:
    """Files whose key ranges overlap, directly or through others: they must be merged together.

    Args:
        runs: Ids of the files, one tuple per sorted run, the oldest run first: of rows of one key, that of the later
            run is the later one. The files of a run are in the order of their keys and share none.
    """

    runs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Rewrite:
    """Files of a bucket that are read together and replaced by new ones of the plan's output level.

    Each of a plan's rewrites may be done, committed or dropped without the others: they share no key.

    Args:
        sections: In the order of their keys; the output is sorted over all of them and may be cut anywhere.
        file_ids: All inputs, ascending.
        size_bytes: The size of all inputs.
        row_count: The rows of all inputs.
        order_key: The place of the output: that of the latest input. Files that are older than any input and share a
            key with it are older than the order key, and whatever is committed meanwhile is newer.
        drops_deletes: Nothing older than the inputs, and not among them, can hold one of their keys: deletes are left
            out as far as the plan's `delete_horizon_ms` allows, and rows whose merging must wait for the oldest run
            (semantics 2.5) are merged.
        why: Why these files, and why together.
    """

    sections: tuple[Section, ...]
    file_ids: tuple[int, ...]
    size_bytes: int
    row_count: int
    order_key: OrderKey
    drops_deletes: bool
    why: str


@dataclass(frozen=True)
class Move:
    """A file that changes its level and nothing else: not its place, its path nor its bytes."""

    file_id: int
    size_bytes: int
    from_level: int


@dataclass(frozen=True)
class BucketPlan:
    """The compaction of one bucket of a primary-key table.

    Args:
        partition: The encoded partition.
        bucket: Its number.
        rule: The rule that made it due.
        why: The reason, in a sentence for people.
        output_level: The level of all that is written and moved, at least 1.
        is_full: All files of the bucket, as planned, end at its highest level. That level is then the state of the
            bucket, except for files that were added after the plan (semantics 3.6).
        rewrites: In the order of their keys.
        moves: In the order of their keys.
        retained_file_ids: Picked files that stay unchanged, since they are at the output level already.
        delete_horizon_ms: With a `sequence.field` only deletes committed before this time may be dropped; None: all.
    """

    partition: bytes
    bucket: int
    rule: Rule
    why: str
    output_level: int
    is_full: bool
    rewrites: tuple[Rewrite, ...]
    moves: tuple[Move, ...]
    retained_file_ids: tuple[int, ...] = field(default=())
    delete_horizon_ms: int | None = None

    @property
    def file_ids(self) -> tuple[int, ...]:
        """The files that are replaced or moved, ascending."""
        moved = [move.file_id for move in self.moves]
        return tuple(sorted([*moved, *(file_id for rewrite in self.rewrites for file_id in rewrite.file_ids)]))

    @property
    def rewritten_bytes(self) -> int:
        """How many bytes are read and written again."""
        return sum(rewrite.size_bytes for rewrite in self.rewrites)


@dataclass(frozen=True)
class AppendPlan:
    """Files of one partition, and bucket if there are buckets, of an append table, to be written in sequence.

    Args:
        partition: The encoded partition.
        bucket: Its number; 0 in a table without buckets.
        file_ids: In the order in which their rows are written.
        size_bytes: The size of all inputs.
        order_key: With buckets, the place of the output: the latest of the inputs' (which are adjacent in the order, so
            nothing else lies between). None without buckets, where rows have no order.
        why: The reason, in a sentence for people.
    """

    partition: bytes
    bucket: int
    file_ids: tuple[int, ...]
    size_bytes: int
    order_key: OrderKey | None
    why: str
