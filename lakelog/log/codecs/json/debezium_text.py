"""Messages in the form of Debezium's, without a schema: what was there before, what is there now, and where from.

`{"before": null, "after": {..}, "source": {"db": .., "table": .., "snapshot": 7, "bucket": 0}, "op": "c", "ts_ms": ..}`

`op` is `c` for a `+I`, `u` for a `+U`, `d` for a `-D` and for a `-U` alone. `before` is null where it is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.types.rowkind import RowKind
from lakelog.log.codecs.json.text import to_json_name
from lakelog.log.codecs.messages import MessagePlan
from lakelog.log.records import Kinds

_OPS: Final = ("c", "d", "u", "d")
"""By the code of the row kind."""


@dataclass(frozen=True)
class MessageSource:
    """Where records come from; the same for a bucket's rows of a snapshot.

    Args:
        database: The table's.
        table: Its name there.
        snapshot_id: The snapshot that brought the rows.
        bucket: Of the rows; None: the table has no buckets.
        ts_ms: When the snapshot was committed, milliseconds since the epoch.
    """

    database: str
    table: str
    snapshot_id: int
    bucket: int | None
    ts_ms: int


def to_debezium_texts(texts: pa.Array, kinds: Kinds, plan: MessagePlan, source: MessageSource) -> pa.Array:
    """The messages' values. Pure.

    Args:
        texts: Each row of the piece as a JSON object.
        kinds: Of each row.
        plan: The messages.
        source: Goes into each.

    Returns:
        Strings, one a message; NULL for tombstones.
    """
    row_kinds = kinds[plan.rows]
    rows = texts if plan.is_plain else texts.take(pa.array(plan.rows))
    if not len(rows):
        return pa.array([], pa.string())
    tails = [_to_tail(source, op) for op in _OPS]
    first = int(row_kinds[0])
    retracts = (row_kinds == RowKind.DELETE) | (row_kinds == RowKind.UPDATE_BEFORE)
    has_before = plan.befores >= 0
    if not retracts.any() and not has_before.any():
        tail = tails[first] if (row_kinds == first).all() else _take_tails(tails, row_kinds)
        return pc.binary_join_element_wise('{"before":null,"after":', rows, tail, "")
    old = texts.take(pa.array(plan.befores, mask=~has_before))
    taken_away = pa.array(retracts)
    before = pc.if_else(taken_away, rows, old).fill_null("null")
    after = pc.if_else(taken_away, "null", rows)
    values = pc.binary_join_element_wise('{"before":', before, ',"after":', after, _take_tails(tails, row_kinds), "")
    if not plan.tombstones.any():
        return values
    return pc.if_else(pa.array(plan.tombstones), pa.scalar(None, pa.string()), values)


def find_envelope_bytes(source: MessageSource) -> int:
    """How many bytes a message has besides its two rows."""
    return len('{"before":,"after":') + len(_to_tail(source, "c").encode())


def _take_tails(tails: list[str], row_kinds: Kinds) -> pa.Array:
    return pa.array(tails).take(pa.array(row_kinds))


def _to_tail(source: MessageSource, op: str) -> str:
    bucket = "null" if source.bucket is None else str(source.bucket)
    return (
        f',"source":{{"db":{to_json_name(source.database)},"table":{to_json_name(source.table)},'
        f'"snapshot":{source.snapshot_id},"bucket":{bucket}}},"op":"{op}","ts_ms":{source.ts_ms}}}'
    )
