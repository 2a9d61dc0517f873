"""Which of a table's records are also written as they arrived, besides the sorted runs that are made of them."""

from __future__ import annotations

import enum
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lakelog.format.tables.snapshot import LogContent
from lakelog.format.types.rowkind import RowKind
from lakelog.options.declared.tables import PRECOMMIT_COMPACT
from lakelog.options.values import TableOptions
from lakelog.storage.merging.merge_policy import MergePolicy
from lakelog.storage.parquet.writer import FileEncoding
from lakelog.storage.write.routing import RoutedRows


class InputCopies(enum.Enum):
    """Records in their own files: those of one bucket and buffer each, ordered by key, then arrival."""

    NONE = "none"
    """None are written."""
    ALL = "all"
    """All of them."""
    MERGED = "merged"
    """Those that merging leaves out of the run, which is listed after the copy and has the others. All of them if the
    run has a row of a key other than its last one, or if a -U is no longer right before its +U."""


def plan_input_copies(options: TableOptions, producer: str, log: LogContent) -> InputCopies:
    """Returns the copies that the changelog and the log of a commit need. Pure.

    Args:
        options: The table's options.
        producer: How the commit's changelog is made (`lakelog.writes.changelog.commit_changelog.find_producer`).
        log: What the commit brings to the external log.
    """
    if producer == "input":
        return InputCopies.ALL
    if log is not LogContent.SEGMENTS:
        return InputCopies.NONE
    # Runs that are merged before the commit cannot hold earlier records.
    return InputCopies.ALL if options.get(PRECOMMIT_COMPACT) else InputCopies.MERGED


def plan_copy_encoding(copies: InputCopies, encoding: FileEncoding) -> FileEncoding:
    """How copies are encoded, given the encoding of the runs. Pure.

    Copies for the log alone are read once, soon, and then deleted: lz4 takes a fifth less time for a copy than zstd.
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
    """Which rows of a bucket's buffer a copy has; None: none, and `routed` itself: all. Pure.

    Args:
        copies: The requested kind.
        policy: The policy by which rows of a key were merged.
        routed: The rows of the bucket.
        kept: Positions of the rows that merging keeps; None: all.
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
    # The kept row of a key came last, so the others can be in a file before it.
    last = int(kept.max() if came is None else came[-1])
    is_left_out = np.zeros(last + 1, np.bool_)
    is_left_out[slice(None) if came is None else came] = True
    is_left_out[kept] = False
    indices = np.flatnonzero(is_left_out)
    return RoutedRows(routed.partition, routed.bucket, indices) if len(indices) else None
