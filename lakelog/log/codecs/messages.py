"""Which messages rows become: pairs of old and new rows, tombstones, rows that are not sent (semantics 4.4).

Pure. The rules, for the rows of one bucket and snapshot in their order, which is by key, then arrival:

1. A `-U` right before a `+U` of its key is no message of its own where the format has a place for old rows: it is that
   message's old row. Formats without such a place send it as a message, in the changelog mode `all`.
2. In the changelog mode `all` every other row is a message.
3. In the changelog mode `upsert` a `-D` is a tombstone, and so is a `-U` that no later row of its key follows; any
   other `-U` is not sent.
4. A `-U` that a higher sequence lets win over the row behind it is a message of its own all the same: else that row
   would seem to count.
5. What a `-U` becomes is known only with the row behind it. So the last row of a piece is held back where it is a `-U`
   and more rows follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakelog.format.types.rowkind import RowKind
from lakelog.log.records import Kinds

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class MessagePlan:
    """The messages of a piece of rows, in their order; places are of rows in the piece.

    Args:
        consumed: So many rows are dealt with; those behind begin the next piece.
        rows: The row that each message is of: of an update the new one.
        befores: The old row of an update; -1: the message brings none.
        tombstones: Whether the message has a key alone.
    """

    consumed: int
    rows: Indices
    befores: Indices
    tombstones: Mask

    @property
    def is_plain(self) -> bool:
        """Whether each row is one message, without old rows and tombstones."""
        return len(self.rows) == self.consumed and not self.tombstones.any() and not (self.befores >= 0).any()


def plan_messages(
    kinds: Kinds,
    same_key: Mask,
    *,
    is_upsert: bool,
    has_before: bool,
    is_last: bool,
    followed: Mask | None = None,
    outranks: Mask | None = None,
) -> MessagePlan:
    """Plans the messages of rows.

    Args:
        kinds: Of each row.
        same_key: One less than rows: whether a row has the key of the one behind it. Ignored where nothing is a `-U`.
        is_upsert: The changelog mode is `upsert`, else `all`.
        has_before: The format has a place for old rows.
        is_last: No row of the bucket and snapshot follows.
        followed: Whether a later row of its key in the bucket and snapshot follows each row; None: rows are ordered by
            key over the whole of it, so that it stands right behind.
        outranks: One less than rows: whether a row has a higher sequence than the one behind it; None: there are no
            sequences. Of rows that do not stand right behind it is not known, so that `followed` does not count then.
    """
    count = len(kinds)
    is_before = kinds == RowKind.UPDATE_BEFORE
    if not is_before.any():
        rows = np.arange(count, dtype=np.int64)
        tombstones = kinds == RowKind.DELETE if is_upsert else np.zeros(count, dtype=np.bool_)
        return MessagePlan(count, rows, np.full(count, -1, dtype=np.int64), tombstones)
    is_replaced = same_key if outranks is None else same_key & ~outranks
    has_next = np.append(is_replaced, False)
    is_paired = is_before & has_next & np.append(kinds[1:] == RowKind.UPDATE_AFTER, False)
    if is_before[-1] and not is_last:
        count -= 1
        kinds, is_before, has_next, is_paired = kinds[:-1], is_before[:-1], has_next[:-1], is_paired[:-1]
    if is_upsert:
        later = has_next if followed is None or outranks is not None else followed[:count] | has_next
        is_sent = ~(is_before & later)
        is_tombstone = is_before | (kinds == RowKind.DELETE)
    else:
        is_sent = ~is_paired if has_before else np.ones(count, dtype=np.bool_)
        is_tombstone = np.zeros(count, dtype=np.bool_)
    befores = np.full(count, -1, dtype=np.int64)
    if has_before:
        befores[1:][is_paired[:-1]] = np.flatnonzero(is_paired[:-1])
    return MessagePlan(count, np.flatnonzero(is_sent), befores[is_sent], is_tombstone[is_sent])
