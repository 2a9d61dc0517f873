from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog

from .shop import make_log, make_orders


def test_whatever_speaks_arrow_may_be_written(catalog: Catalog) -> None:
    table = make_log(catalog)
    arrow = pa.table({"n": [1], "t": ["a"]})
    sources = [
        arrow,
        arrow.to_batches()[0],
        pa.RecordBatchReader.from_batches(arrow.schema, iter(arrow.to_batches())),
        pl.DataFrame({"n": [1], "t": ["a"]}),
        pd.DataFrame({"n": [1], "t": ["a"]}),
        arrow.to_batches(),
        (batch for batch in [arrow, pl.DataFrame({"t": ["a"], "n": [1]})]),
    ]
    for source in sources:
        table.append(source)
    table.append(table.scan(limit=1))
    assert table.scan().to_arrow().group_by(["n", "t"]).aggregate([([], "count_all")]).to_pylist() == [
        {"n": 1, "t": "a", "count_all": 9}
    ]


def test_categories_of_polars_and_pandas_are_texts(catalog: Catalog) -> None:
    table = make_log(catalog)
    table.append(pl.DataFrame({"n": [1, 2], "t": pl.Series(["a", None], dtype=pl.Categorical)}))
    table.append(pl.DataFrame({"n": [3], "t": pl.Series(["b"], dtype=pl.Enum(["a", "b"]))}))
    table.append(pd.DataFrame({"n": [4], "t": pd.Categorical(["a"])}))
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: int(row["n"])) == [
        {"n": n, "t": t} for n, t in ((1, "a"), (2, None), (3, "b"), (4, "a"))
    ]


def test_an_unnamed_index_of_pandas_is_left_out(catalog: Catalog) -> None:
    table = make_log(catalog)
    frame = pd.DataFrame({"n": [1, 2, 3], "t": ["a", "b", "c"]})
    table.append(frame[frame["n"] > 1])
    table.append(frame[frame["n"] > 5])
    assert sorted(table.scan().to_arrow().column("n").to_pylist()) == [2, 3]
    with pytest.raises(InvalidArgument, match="day"):
        table.append(frame.set_index(pd.Index([1, 2, 3], name="day")))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"n": [1]}, r"pyarrow\.table\(data\)"),
        ({"n": 1}, r"\[data\], where it is one row"),
        ("rows", "Rows cannot be taken from a str"),
        (5, "Rows cannot be taken from a int"),
        (pa.array([1]), "holds no rows with named columns"),
        (pa.chunked_array([[1]]), "no stream of rows"),
    ],
)
def test_other_input_is_refused_with_the_remedy(catalog: Catalog, data: Any, message: str) -> None:
    table = make_log(catalog)
    with pytest.raises(InvalidArgument, match=message):
        table.append(data)
    assert table.snapshots().num_rows == 0


def test_a_mismatch_shows_every_column(catalog: Catalog) -> None:
    table = make_orders(catalog)
    with pytest.raises(InvalidArgument) as caught:
        table.upsert(pa.table({"name": [1], "price": ["x"], "colour": ["red"]}))
    for column in ("id", "name", "price", "colour"):
        assert f"  {column}: expected" in str(caught.value)
    assert caught.value.reason == "SCHEMA_MISMATCH"
