"""What planning answers: a plan, which is data, or none with a reason."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from lakelog.format.commit.facts import OrderKey


class Rule(enum.Enum):
    """What makes a compaction due, or was asked for (semantics 6.1)."""

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
        reason: Why, in a sentence for people.
        findings: What each rule that was looked at found, in the order in which they were; may be empty.
    """

    reason: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Section:
    """Files whose key ranges overlap, directly or through others: what must be merged together.

    Args:
        runs: Ids of the files, one tuple a sorted run, the oldest run first: between rows of one key that of the later
            run is the later one. The files of a run stand in the order of their keys and share none.
    """

    runs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Rewrite:
    """Files of a bucket that are read together and replaced by new ones of the plan's output level.

    Each of a plan's rewrites may be done, committed or dropped without the others: they share no key.

    Args:
        sections: In the order of their keys; what is written is sorted over all of them and may be cut anywhere.
        file_ids: All inputs, ascending.
        size_bytes: Of all inputs.
        row_count: Of all inputs.
        order_key: Of what is written: that of the latest input. What is older than any input and shares a key with
            it is older than the order key, and whatever is committed meanwhile is newer.
        drops_deletes: Nothing older than the inputs, and not among them, can hold a key of theirs: rows that take away
            are left out as far as the plan's `delete_horizon_ms` allows, and rows whose merging must wait for the
            oldest run (semantics 2.5) are merged.
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
        partition: Encoded.
        bucket: Its number.
        rule: What made it due.
        why: In a sentence for people.
        output_level: Of all that is written and moved, at least 1.
        is_full: All files of the bucket, as planned, end at its highest level. The state of the bucket is then what
            lies there, but for files that were added behind the plan (semantics 3.6).
        rewrites: In the order of their keys.
        moves: In the order of their keys.
        retained_file_ids: Files that were picked and are left as they are, since they are at the output level already.
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
        """How much is read and written anew."""
        return sum(rewrite.size_bytes for rewrite in self.rewrites)


@dataclass(frozen=True)
class AppendPlan:
    """Files of one partition, and bucket if there are buckets, of an append table, to be written one behind the other.

    Args:
        partition: Encoded.
        bucket: Its number; 0 in a table without buckets.
        file_ids: In the order in which their rows are written.
        size_bytes: Of all inputs.
        order_key: With buckets, that of what is written: the latest of the inputs' (which are neighbours in the order,
            so that nothing else lies between). None without buckets, where rows have no order.
        why: In a sentence for people.
    """

    partition: bytes
    bucket: int
    file_ids: tuple[int, ...]
    size_bytes: int
    order_key: OrderKey | None
    why: str
