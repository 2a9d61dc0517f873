import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import DataCorrupted, InvalidArgument
from lakelog.format.types.rowkind import RowKind, decode_kinds, encode_kinds, is_retract

TEXTS = ["+I", "-U", "+U", "-D", "+I"]


@pytest.mark.parametrize(
    "kinds",
    [
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS).dictionary_encode(),
        pa.chunked_array([TEXTS[:2], TEXTS[2:]]),
        pa.chunked_array([pa.array(TEXTS[:2]).dictionary_encode(), pa.array(TEXTS[2:]).dictionary_encode()]),
    ],
    ids=lambda kinds: str(kinds.type),
)
def test_round_trip(kinds: pa.Array) -> None:
    codes = encode_kinds(kinds)
    assert codes == pa.array([0, 1, 2, 3, 0], pa.int8())
    assert decode_kinds(codes).to_pylist() == TEXTS


def test_empty_input() -> None:
    assert encode_kinds(pa.array([], pa.string())) == pa.array([], pa.int8())
    assert len(decode_kinds(pa.array([], pa.int8()))) == 0
    assert len(encode_kinds(pa.chunked_array([], pa.string()))) == 0


def test_codes_are_those_of_the_files() -> None:
    assert [(kind.value, kind.text) for kind in RowKind] == [(0, "+I"), (1, "-U"), (2, "+U"), (3, "-D")]


def test_retract() -> None:
    np.testing.assert_array_equal(is_retract(pa.array([0, 1, 2, 3], pa.int8())), [False, True, False, True])


@pytest.mark.parametrize(("value", "shown"), [("+X", "'+X'"), (None, "None"), ("+i", "'+i'")])
def test_unknown_kind_names_value_and_row(value: str | None, shown: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        encode_kinds(pa.array(["+I", "-D", value, "bad"]))
    assert f"{shown} in row 2" in str(caught.value)
    with pytest.raises(InvalidArgument, match="row 2"):
        encode_kinds(pa.array(["+I", "-D", value, "bad"]).dictionary_encode())


def test_kinds_must_be_text() -> None:
    with pytest.raises(InvalidArgument, match="has type int8"):
        encode_kinds(pa.array([0], pa.int8()))


@pytest.mark.parametrize("codes", [[4], [-1], [None]])
def test_damaged_codes(codes: list[int | None]) -> None:
    with pytest.raises(DataCorrupted):
        decode_kinds(pa.array(codes, pa.int8()))
    with pytest.raises(DataCorrupted):
        is_retract(pa.array(codes, pa.int8()))
