"""Which of the records that a table takes are written as they came, besides the sorted runs that are made of them."""

from __future__ import annotations

import enum
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lakelog.format.tables.snapshot import LogContent
from lakelog.format.types.rowkind import RowKind
from lakelog.options.declared.tables import PRECOMMIT_COMPACT
from lakelog.options.values import TableOptions
from lakelog.storage.merging.deletion_vectors import MergePolicy
from lakelog.storage.parquet.writer import FileEncoding
from lakelog.storage.write.routing import RoutedRows


class InputCopies(enum.Enum):
    """Records in files of their own: a bucket's of one buffer each, ordered by key, then arrival."""

    NONE = "none"
    """None are written."""
    ALL = "all"
    """All of them."""
    MERGED = "merged"
    """Those that merging leaves out of the run, which is then named behind the copy as what holds the others; where the
    run has another row of a key than the last that came, or a -U has lost its place before its +U, all of them."""


def plan_input_copies(options: TableOptions, producer: str, log: LogContent) -> InputCopies:
    """Which copies the changelog and the log of a commit ask for. Pure.

    Args:
        options: The table's.
        producer: Who makes the commit's changelog (`lakelog.writes.changelog.commit_changelog.find_producer`).
        log: What the commit brings to the external log.
    """
    if producer == "input":
        return InputCopies.ALL
    if log is not LogContent.SEGMENTS:
        return InputCopies.NONE
    # Runs that are merged before the commit are no place for records that came before.
    return InputCopies.ALL if options.get(PRECOMMIT_COMPACT) else InputCopies.MERGED


def plan_copy_encoding(copies: InputCopies, encoding: FileEncoding) -> FileEncoding:
    """How copies are encoded, given how the runs are. Pure.

    Those for the log alone are read once, soon, and go then: lz4 takes a fifth less time for all of a copy than zstd.
    """
    if copies is InputCopies.MERGED and encoding.compression == "zstd":
        return replace(encoding, compression="lz4")
    return encoding


def find_copied(
    copies: InputCopies,
    policy: MergePolicy,
    routed: RoutedRows,
    kept: npt.NDArray[np.int64] | None,
    kinds: npt.NDArray[np.int8] | None,
) -> RoutedRows | None:
    """Which rows of a bucket's buffer a copy holds; None: none, and `routed` itself: all. Pure.

    Args:
        copies: Which are asked for.
        policy: By which rows of a key were merged.
        routed: The rows of the bucket.
        kept: Positions of those that are left; None: all are.
        kinds: A code for each row of the buffer; None: all are +I.
    """
    if copies is InputCopies.NONE:
        return None
    if copies is InputCopies.ALL:
        return routed
    if kept is None or (routed.indices is not None and len(kept) == len(routed.indices)):
        return None
    came = routed.indices
    codes = None if kinds is None else kinds if came is None else kinds[came]
    splits_pairs = codes is not None and bool((codes == RowKind.UPDATE_BEFORE).any())
    if policy.sequence or policy.keep_first or splits_pairs:
        return routed
    # What is left of a key came last, so that the others may stand in a file before it.
    last = int(kept.max() if came is None else came[-1])
    is_left_out = np.zeros(last + 1, np.bool_)
    is_left_out[slice(None) if came is None else came] = True
    is_left_out[kept] = False
    indices = np.flatnonzero(is_left_out)
    return RoutedRows(routed.partition, routed.bucket, indices) if len(indices) else None
