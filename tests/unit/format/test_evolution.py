from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.types.column_changes import (
    AddColumn,
    AllowNull,
    ColumnChange,
    CommentColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetDefault,
    WidenColumn,
)
from lakelog.format.types.evolution import (
    MAX_CHANGES,
    ColumnRoles,
    evolve,
    find_mismatches,
    find_renames,
    next_field_id,
)
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.format.types.types import canonical_schema
from lakelog.options.column_options import rename_in_options

_COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        ("price", pa.decimal128(10, 2)),
        ("seq", pa.int32()),
        ("place", pa.struct([("zip", pa.int32()), ("tags", pa.list_(pa.struct([("name", pa.string())])))])),
        ("rates", pa.map_(pa.string(), pa.float32())),
    ]
)
OLD = TableSchema(3, assign_field_ids(canonical_schema(_COLUMNS)), ("id", "day"), ("day",))
ROLES = ColumnRoles(("id", "day"), ("day",), ("id",), {"sequence.field": ("seq",)})
NEXT = next_field_id(OLD)


def change(*changes: ColumnChange, schema: TableSchema = OLD) -> TableSchema:
    return evolve(schema, changes, ROLES)


def test_all_kinds_of_changes_at_once_keep_the_ids_of_what_stays() -> None:
    new = change(
        AddColumn("note", "STRING", comment="why", after="id"),
        AddColumn("place.street", pa.string(), first=True),
        AddColumn("place.tags.element.since", pa.date32(), default=dt.date(2020, 1, 1)),
        AddColumn("first", pa.int8(), nullable=False, default=4, first=True),
        RenameColumn("id", "key"),
        RenameColumn("place.tags.element.name", "label"),
        WidenColumn("rates.value", "DOUBLE"),
        WidenColumn("place.zip", pa.int64()),
        WidenColumn("price", "DECIMAL(14, 4)"),
        DropColumn("place.zip"),
        MoveColumn("rates", after="first"),
        CommentColumn("seq", "order"),
    )
    assert new.schema_id == 4
    assert new.arrow.names == ["first", "rates", "key", "note", "day", "price", "seq", "place"]
    assert (new.primary_key, new.partition_by) == (("key", "day"), ("day",))
    place = new.arrow.field("place").type
    assert [place.field(i).name for i in range(place.num_fields)] == ["street", "tags"]
    assert str(place.field("tags").type) == "list<element: struct<label: string, since: date32[day]>>"
    old_ids = {name: OLD.field_ids[name] for name in OLD.arrow.names}
    assert {new.field_ids[name] for name in new.arrow.names} == {*old_ids.values(), NEXT, NEXT + 3}
    assert new.field_ids["key"] == old_ids["id"]
    assert new.arrow.field("rates").type.item_type == pa.float64()
    assert new.arrow.field("price").metadata[b"lakelog.encoded-since"] == b"4"
    assert new.arrow.field("note").metadata[b"comment"] == b"why"
    assert find_renames(OLD, new) == {"id": "key"}
    assert next_field_id(new) == NEXT + 4


def test_a_dropped_and_added_column_is_a_new_one() -> None:
    gone = change(DropColumn("price"))
    again = change(AddColumn("price", pa.decimal128(10, 2)), schema=gone)
    assert again.field_ids["price"] == NEXT > OLD.field_ids["price"]
    # The ids of what was dropped, nested ones too, are not given again.
    without = change(DropColumn("rates"))
    assert next_field_id(without) == NEXT


def test_a_widened_column_keeps_its_defaults() -> None:
    added = change(AddColumn("n", "INT", default=5))
    wide = change(WidenColumn("n", "DECIMAL(12, 2)"), schema=added)
    metadata = wide.arrow.field("n").metadata
    assert (metadata[b"initial-default"], metadata[b"write-default"]) == (b"5.00", b"5.00")
    other = change(SetDefault("n", 7), schema=added).arrow.field("n").metadata
    assert (other[b"initial-default"], other[b"write-default"]) == (b"5", b"7")
    none = change(SetDefault("n", None), schema=added).arrow.field("n").metadata
    assert (b"write-default" in none, none[b"initial-default"]) == (False, b"5")


@pytest.mark.parametrize(
    ("changes", "column", "says"),
    [
        ([DropColumn("id")], "id", "part of the primary key, and cannot be dropped. It can be renamed"),
        ([DropColumn("day")], "day", "part of the primary key"),
        ([DropColumn("seq")], "seq", "named by option 'sequence.field', and cannot be dropped. Change that option"),
        ([RenameColumn("seq", "s"), DropColumn("s")], "s", "named by option 'sequence.field'"),
        ([DropColumn("prise")], "prise", "There is no 'prise'; near it are price"),
        ([DropColumn("place.zup")], "place.zup", "near it are zip"),
        ([DropColumn("place.tags.element")], "place.tags.element", "nothing is renamed, moved or dropped"),
        ([DropColumn("place.tags.element.name")], "place.tags.element.name", "last field of 'place.tags.element'"),
        ([AddColumn("PRICE", "INT")], "PRICE", "taken by 'price': case does not count"),
        ([RenameColumn("price", "seq")], "price", "The name 'seq' is taken"),
        ([RenameColumn("price", "")], "price", "Give a text that is not empty"),
        ([AddColumn("n", "INT", nullable=False)], "n", "ADD COLUMN n INT NOT NULL DEFAULT"),
        ([AddColumn("n", "INT", default="x")], "n", "cannot be the default of column 'n'"),
        ([AddColumn("n", "INT", first=True, after="id")], "n", "Give one of them"),
        ([AddColumn("n", "INT", after="nope")], "nope", "There is no 'nope'"),
        ([AddColumn("n", "TIME")], "n", "There is no type TIME"),
        ([AddColumn("n", pa.uint64())], "n", "cast it to decimal128"),
        ([DropColumn("Price")], "Price", "near it are price. Upper and lower case count"),
        ([AddColumn("price.cents", "INT")], "price.cents", "'price' has type DECIMAL(10,2), and only structs"),
        ([WidenColumn("price", "DECIMAL(10, 3)")], "price", "Its type DECIMAL(10,2) cannot become DECIMAL(10,3)"),
        ([WidenColumn("seq", "STRING")], "seq", "It may become BIGINT, DOUBLE"),
        ([WidenColumn("seq", "INT")], "seq", "has type INT already"),
        ([WidenColumn("place", "INT")], "place", "one by one, by their paths"),
        ([WidenColumn("id", "DECIMAL(20)")], "id", "rows would belong to other buckets"),
        ([WidenColumn("day", "TIMESTAMP_NTZ")], "day", "keys would be stored in another form"),
        ([AllowNull("id")], "id", "always NOT NULL"),
        ([AllowNull("price")], "price", "takes NULL already"),
        ([AllowNull("rates.key")], "rates.key", "keys of a map are never NULL"),
        ([MoveColumn("seq")], "seq", "FIRST, or AFTER another column"),
        ([MoveColumn("seq", first=True, after="id")], "seq", "FIRST, or AFTER another column"),
        ([SetDefault("place.zip", 5)], "place.zip", "rows give a column as a whole"),
        ([DropColumn("price"), DropColumn("price")], "price", "changed twice in the same way at once"),
        ([DropColumn("price"), WidenColumn("price", "DOUBLE")], "price", "There is no 'price'"),
    ],
)
def test_a_refused_change_names_its_column_and_what_would_do(
    changes: Sequence[ColumnChange], column: str, says: str
) -> None:
    with pytest.raises(InvalidArgument) as error:
        change(*changes)
    assert f"'{column}'" in error.value.message
    assert says in error.value.message
    assert not re.search(r"[^.]\.\.$", error.value.message)
    assert error.value.metadata["column"] == column


@pytest.mark.parametrize("column", ["", [], "a..b", [1], ("a", "")])
def test_what_is_no_path_is_refused(column: object) -> None:
    with pytest.raises(InvalidArgument, match="is no column"):
        change(DropColumn(column))  # type: ignore[arg-type]


def test_a_refused_type_comes_with_the_statements_that_convert_it() -> None:
    with pytest.raises(InvalidArgument) as error:
        change(WidenColumn("price", "STRING"))
    assert (
        "ALTER TABLE ... ADD COLUMN price_new STRING; UPDATE ... SET price_new = CAST(price AS STRING); "
        "ALTER TABLE ... DROP COLUMN price, RENAME COLUMN price_new TO price"
    ) in error.value.message
    assert error.value.metadata == {"column": "price", "type": "DECIMAL(10,2)", "new_type": "STRING"}


@pytest.mark.parametrize("column", ["id", "day", "seq"])
def test_a_column_that_cannot_be_dropped_is_not_converted_so(column: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        change(WidenColumn(column, "STRING"))
    assert "DROP COLUMN" not in error.value.message


def test_a_name_with_a_dot_is_given_by_its_parts() -> None:
    dotted = change(AddColumn(["a.b"], "STRUCT<c: INT>"))
    assert "a.b" in dotted.arrow.names
    wide = change(WidenColumn(["a.b", "c"], "BIGINT"), schema=dotted)
    assert wide.arrow.field("a.b").type.field("c").type == pa.int64()


def test_neither_none_nor_too_many_changes_are_taken() -> None:
    for changes in ([], [AddColumn(f"c{n}", "INT") for n in range(MAX_CHANGES + 1)]):
        with pytest.raises(InvalidArgument, match=f"{len(changes)} changes"):
            change(*changes)


def test_rows_of_an_older_schema_fit_if_nothing_of_them_is_lost() -> None:
    new = change(
        AddColumn("note", "STRING"),
        AddColumn("n", "INT", default=5),
        RenameColumn("price", "amount"),
        WidenColumn("seq", "BIGINT"),
        MoveColumn("rates", first=True),
        AddColumn("place.x", "INT"),
    )
    assert find_mismatches(OLD, new) == []
    gone = change(DropColumn("price"), DropColumn("place.zip"))
    assert find_mismatches(OLD, gone) == [
        "price: was dropped, and its values would be lost",
        "place.zip: was dropped, and its values would be lost",
    ]
    # SET DEFAULT after ADD COLUMN: a write would store 7 where older rows show 5.
    other = change(SetDefault("n", 7), schema=new)
    assert find_mismatches(OLD, other) == ["n: was added, and writes store another default than older rows show"]
    assert find_mismatches(new, other) == []


def test_a_new_column_with_the_old_name_of_a_key_is_no_key() -> None:
    again: list[ColumnChange] = [RenameColumn("id", "k"), AddColumn("id", pa.int32())]
    assert change(*again).primary_key == ("k", "day")
    further: list[ColumnChange] = [DropColumn("id"), WidenColumn("id", "BIGINT"), WidenColumn("id", "DOUBLE")]
    for more in further:
        new = change(*again, more)
        assert new.primary_key == ("k", "day")
        assert new.field_ids["k"] == OLD.field_ids["id"]
    taken = [RenameColumn("id", "k"), RenameColumn("seq", "id")]
    with pytest.raises(InvalidArgument, match=r"is named by option 'sequence.field'"):
        change(*taken, DropColumn("id"))
    with pytest.raises(InvalidArgument, match="is part of the primary key"):
        change(*taken, DropColumn("k"))
    required = AddColumn("id", pa.int32(), nullable=False, default=0)
    assert change(RenameColumn("id", "k"), required, AllowNull("id")).arrow.field("id").nullable


def test_names_that_are_given_twice_or_exchanged_stay_with_their_columns() -> None:
    twice = change(RenameColumn("id", "k"), RenameColumn("k", "key"))
    assert (twice.primary_key, twice.partition_by) == (("key", "day"), ("day",))
    back = change(RenameColumn("day", "d"), RenameColumn("d", "day"))
    assert (back.primary_key, back.partition_by) == (OLD.primary_key, OLD.partition_by)
    exchanged = change(RenameColumn("day", "x"), RenameColumn("seq", "day"), RenameColumn("x", "seq"))
    assert (exchanged.primary_key, exchanged.partition_by) == (("id", "seq"), ("seq",))
    renames = find_renames(OLD, exchanged)
    assert renames == {"day": "seq", "seq": "day"}
    assert rename_in_options({"sequence.field": "seq", "bucket-key": "day"}, renames) == {
        "sequence.field": "day",
        "bucket-key": "seq",
    }
