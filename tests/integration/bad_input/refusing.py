"""How input that cannot be is refused, and a schema for it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, LakelogError

KEYED = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("n", pa.int32())]
)


def refused(call: Any, *words: str, kind: type[LakelogError] = InvalidArgument) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind, f"{type(caught.value).__name__}: {caught.value}"
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {str(caught.value)[:1000]}"
    assert len(str(caught.value)) < 20_000, "a message is for people"
