"""The model by which the Spark workloads are judged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bench.expected import Q1_COLUMNS, Q1Model, check_equal
from bench.measure import WrongAnswerError
from bench.shapes import order_free_hash, q1


def test_the_last_row_of_a_key_stays() -> None:
    model = Q1Model(3)
    base, more = q1(np.arange(3), 1), q1(np.array([2, 1, 2]), 2)
    model.apply(base)
    model.apply(more)
    columns = ["id", "v0", "ts"]
    expected = pa.concat_tables([base.slice(0, 1), more.slice(1, 2)]).select(columns)
    assert order_free_hash(model.rows(tuple(columns))) == order_free_hash(expected)
    assert model.versions() == 6
    assert (model.versions(0, 0), model.versions(1, 1), model.versions(2, 2)) == (1, 2, 3)


def test_a_digest_is_of_all_columns_and_of_a_part_of_the_keys() -> None:
    model, base = Q1Model(4), q1(np.arange(4), 1)
    model.apply(base)
    names = base.column("name").to_pylist()
    assert model.digest(("id", "name"), 1, 2) == (2, 1 ^ 2, len(names[1]) + len(names[2]))
    v7 = base.column("v7").to_pylist()
    assert model.digest(Q1_COLUMNS)[-2] == v7[0] ^ v7[1] ^ v7[2] ^ v7[3]


def test_another_answer_voids_a_run() -> None:
    assert check_equal("x", (1, 2), (1, 2))
    with pytest.raises(WrongAnswerError, match=r"x: found \(1, 2\), not \(1, 3\)"):
        check_equal("x", (1, 2), (1, 3))
