"""How many rows are decoded at once, by what the pages hold: ordinary files as ever, others within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.storage.parquet.pages import decoding
from lakelog.storage.parquet.pages.decoding import (
    DECODED_BYTES,
    LARGEST_DECODED_BYTES,
    Decoding,
    Leaf,
    TooLarge,
    plan_decoding,
)
from lakelog.storage.parquet.pages.page_headers import ChunkPages, Page
from lakelog.storage.parquet.reader import BATCH_ROWS

MB = 1 << 20
ROWS = 30_000


def leaf(
    kind: str,
    pages: Sequence[tuple[int, int]] = ((ROWS, 100),),
    *,
    dictionary: tuple[int, int] = (0, 0),
    nested: bool = False,
    prefixes: bool = False,
    length: int = 0,
    path: str = "c",
) -> Leaf:
    """A column of so many pages, each with its values and bytes; `dictionary` has its bytes and values."""
    column = SimpleNamespace(physical_type=kind, max_repetition_level=int(nested), length=length, path=path)
    found = ChunkPages(tuple(Page(*each) for each in pages), *dictionary, bool(dictionary[0]), prefixes)
    return Leaf(cast(Any, column), found)


def plan(*leaves: Leaf, rows: int = ROWS, budget: int = DECODED_BYTES) -> Decoding:
    return plan_decoding(leaves, rows, BATCH_ROWS, budget)


def test_ordinary_columns_are_decoded_at_once() -> None:
    number, flag = leaf("INT64", [(ROWS, 8 * ROWS)]), leaf("BOOLEAN")
    text = leaf("BYTE_ARRAY", [(ROWS // 2, MB)] * 2)
    few = leaf("BYTE_ARRAY", dictionary=(900, 20))
    nested = leaf("INT64", [(5 * ROWS, 10 * ROWS)], nested=True)
    assert plan(number, flag, text, few, nested) == Decoding(ROWS)


def test_a_dictionary_that_could_name_much_is_read_as_one() -> None:
    large = leaf("BYTE_ARRAY", dictionary=(MB, 1), path="large")
    assert plan(large, leaf("INT64", path="other")) == Decoding(ROWS, ("large",))
    nested = leaf("BYTE_ARRAY", [(2 * ROWS, 100)], dictionary=(MB, 1), nested=True, path="a.list.element")
    assert plan(nested).dictionaries == ("a.list.element",)
    # Two rows of it are no danger.
    assert plan_decoding([large], ROWS, 2, DECODED_BYTES) == Decoding(2)


def test_pages_of_large_texts_are_decoded_a_few_rows_at_a_time() -> None:
    one_each = leaf("BYTE_ARRAY", [(1, 4 * MB)] * 1000)
    assert 8 <= plan(one_each, rows=1000).rows <= 16
    # All of them in the last page, wherever that begins.
    skewed = leaf("BYTE_ARRAY", [(ROWS - 100, 100), *[(1, 4 * MB)] * 100])
    assert 8 <= plan(skewed).rows <= 16
    together = leaf("BYTE_ARRAY", [(10_000, MB)] * 200)
    assert 100_000 < plan_decoding([together], 2_000_000, 2_000_000, DECODED_BYTES).rows < 640_000


def test_prefixes_make_any_text_as_large_as_its_page() -> None:
    assert plan(leaf("BYTE_ARRAY", [(ROWS, 4 * MB)], prefixes=True)).rows <= 16


def test_many_columns_and_wide_ones_are_decoded_a_few_rows_at_a_time() -> None:
    assert plan(*[leaf("INT64")] * 5000, rows=ROWS).rows <= DECODED_BYTES // 40_000
    assert plan(leaf("FIXED_LEN_BYTE_ARRAY", length=MB)).rows == DECODED_BYTES // MB


def test_nested_values_that_may_be_in_one_row_are_decoded_a_few_rows_at_a_time_or_not() -> None:
    many = leaf("INT64", [(20 * MB, 100)], nested=True)
    assert 1 <= plan(many).rows < ROWS / 4
    with pytest.raises(TooLarge, match=r"nested values .* for column 'a.b', and at most 536870912"):
        plan(leaf("INT64", [(1 << 30, 100)], nested=True, path="a.b"))


@pytest.mark.parametrize(
    "leaves",
    [
        [leaf("INT64", [(ROWS, LARGEST_DECODED_BYTES + 1)])],
        [leaf("BYTE_ARRAY", dictionary=(200 * MB, 1))],
        [leaf("INT64", [(ROWS, MB)])] * 600,
    ],
)
@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
def test_pages_that_take_too_much_are_refused(
    monkeypatch: pytest.MonkeyPatch, leaves: list[Leaf], is_bounded: bool
) -> None:
    if not is_bounded:
        monkeypatch.setattr(decoding, "LARGEST_DECODED_BYTES", 1 << 40)
        assert plan(*leaves).rows >= 1
        return
    with pytest.raises(
        TooLarge, match=r"pages of its columns may take \d+ bytes of memory, \d+ of them for column 'c'"
    ):
        plan(*leaves)


@pytest.mark.parametrize("is_checked", [True, False], ids=["protected", "control"])
@pytest.mark.parametrize("values", [0, ROWS - 1, ROWS + 1, 1 << 40])
def test_pages_that_contradict_the_footer_are_refused(
    monkeypatch: pytest.MonkeyPatch, values: int, is_checked: bool
) -> None:
    if not is_checked:
        monkeypatch.setattr(decoding, "_check", lambda leaf, row_count: None)
        assert plan(leaf("INT64", [(values, 100)])) == Decoding(ROWS)
        return
    with pytest.raises(ValueError, match=f"have {values} values for the {ROWS} rows"):
        plan(leaf("INT64", [(values, 100)]))


def test_a_dictionary_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="claims 2000000000 values in 100 bytes"):
        plan(leaf("BYTE_ARRAY", dictionary=(100, 2_000_000_000)))


def test_columns_are_what_pyarrow_says() -> None:
    sink = pa.BufferOutputStream()
    price = pa.array([1], pa.decimal128(20, 2))
    pq.write_table(pa.table({"t": ["a"], "l": [["a"]], "p": price, "d": [1.5]}), sink)
    metadata = pq.ParquetFile(sink.getvalue()).metadata
    none = ChunkPages((), 0, 0, False, False)
    found = [Leaf(metadata.schema.column(place), none) for place in range(4)]
    assert [each.is_text for each in found] == [True, True, False, False]
    assert [each.is_nested for each in found] == [False, True, False, False]
    assert [each.width for each in found[2:]] == [16, 8]
    assert found[1].path == "l.list.element"
