"""Which messages rows become (semantics 4.4): pairs, tombstones, what is not sent."""

from __future__ import annotations

import numpy as np
import pytest

from lakelog.log.codecs.messages import plan_messages

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


def plan(rows: str, *, is_upsert: bool = False, has_before: bool = True, is_last: bool = True) -> str:
    """Messages of rows like `-U1 +U1`, as `row`, `old>new` or `row!` for a tombstone, by place; then the consumed."""
    words = rows.split()
    kinds = np.array([KINDS[word[:2]] for word in words], dtype=np.int8)
    keys = np.array([word[2:] for word in words])
    found = plan_messages(kinds, keys[:-1] == keys[1:], is_upsert=is_upsert, has_before=has_before, is_last=is_last)
    texts = [
        (f"{before}>" if before >= 0 else "") + str(row) + ("!" if tombstone else "")
        for row, before, tombstone in zip(found.rows, found.befores, found.tombstones, strict=True)
    ]
    return f"{' '.join(texts)} | {found.consumed}"


@pytest.mark.parametrize(
    ("rows", "everything", "upsert", "upsert_without_place"),
    [
        ("+I1 +I2", "0 1 | 2", "0 1 | 2", "0 1 | 2"),
        ("-U1 +U1", "0>1 | 2", "0>1 | 2", "1 | 2"),
        ("-U1 +U2", "0 1 | 2", "0! 1 | 2", "0! 1 | 2"),
        ("-U1 +I1", "0 1 | 2", "1 | 2", "1 | 2"),
        ("-D1", "0 | 1", "0! | 1", "0! | 1"),
        ("-D1 +I1", "0 1 | 2", "0! 1 | 2", "0! 1 | 2"),
        ("+I1 -U1", "0 1 | 2", "0 1! | 2", "0 1! | 2"),
        ("-U1 -U1 +U1 -U2", "0 1>2 3 | 4", "1>2 3! | 4", "2 3! | 4"),
        ("+U1 +U1", "0 1 | 2", "0 1 | 2", "0 1 | 2"),
    ],
)
def test_messages_of_rows(rows: str, everything: str, upsert: str, upsert_without_place: str) -> None:
    assert plan(rows) == everything
    assert plan(rows, is_upsert=True) == upsert
    assert plan(rows, is_upsert=True, has_before=False) == upsert_without_place


def test_a_format_without_old_rows_sends_them_by_themselves() -> None:
    assert plan("-U1 +U1 -D1", has_before=False) == "0 1 2 | 3"


@pytest.mark.parametrize("is_upsert", [False, True])
def test_what_an_old_row_becomes_waits_for_the_row_after_it(is_upsert: bool) -> None:
    assert plan("+I1 -U2", is_upsert=is_upsert, is_last=False) == "0 | 1"
    assert plan("-U2", is_upsert=is_upsert, is_last=False) == " | 0"
    assert plan("-U2 +U2", is_upsert=is_upsert, is_last=False) == "0>1 | 2"


def test_later_rows_of_other_files_are_emitted() -> None:
    kinds = np.array([1, 0], dtype=np.int8)
    same = np.array([False])
    for reported, rows in (([True, False], [1]), ([False, False], [0, 1])):
        found = plan_messages(kinds, same, is_upsert=True, has_before=True, is_last=True, followed=np.array(reported))
        assert found.rows.tolist() == rows


def test_what_a_higher_sequence_does_not_let_be_replaced_is_sent() -> None:
    kinds, same = np.array([1, 1, 2, 1, 0], dtype=np.int8), np.array([True, True, False, True])
    reported = {"followed": np.array([True, True, False, True, False]), "outranks": np.array([False, True, True, True])}
    found = plan_messages(kinds, same, is_upsert=True, has_before=True, is_last=True, **reported)
    assert found.rows.tolist() == [1, 2, 3, 4]
    assert found.befores.tolist() == [-1] * 4
    assert found.tombstones.tolist() == [True, False, True, False]
    found = plan_messages(kinds, same, is_upsert=False, has_before=True, is_last=True, **reported)
    assert found.rows.tolist() == [0, 1, 2, 3, 4]
    assert found.befores.tolist() == [-1] * 5
