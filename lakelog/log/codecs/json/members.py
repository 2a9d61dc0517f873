"""Which JSON objects name a member at all: a parser of columns reads a missing member and a null alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakelog.log.codecs.byte_columns import Mask
from lakelog.log.codecs.json.scan import scan_json
from lakelog.log.codecs.json.values import OBJECT, Values


def find_left_out(texts: pa.Array, names: Sequence[str], *, path: Sequence[str] = ()) -> list[Mask]:
    """For each name the objects that have no member of this name. Pure; no loop over rows.

    Args:
        texts: JSON, binary; what is no object lacks nothing, and what cannot be scanned lacks all.
        names: Of members.
        path: The members that lead to the objects that are looked at; one that is no object is passed over.
    """
    objects = Values.of_roots(scan_json(texts))
    for name in path:
        inner = objects.find_members([name])[0]
        holders = np.where(inner.kinds == OBJECT, inner.holders, objects.holders)
        objects = Values.of(objects.scan, objects.wrong, holders, objects.texts)
    damaged = objects.scan.damaged
    return [damaged | (objects.kinds == OBJECT) & (found.holders < 0) for found in objects.find_members(names)]
