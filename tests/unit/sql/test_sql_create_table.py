"""SHOW CREATE TABLE: reading what was written gives the same table."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.format.tables.table import TableName
from lakelog.format.types.schema import TableSchema
from lakelog.sql import parse_statement, to_create_sql
from lakelog.sql.statements import CreateTable, Name

_PLAIN = st.sampled_from(
    [
        pa.bool_(),
        pa.int8(),
        pa.int64(),
        pa.float32(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.decimal128(38, 38),
        pa.decimal128(5, 0),
    ]
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.sampled_from(
    ["PRIMARY", "a`b", "it's", "\\", "\\%", "\\'", "100%_", "line\nbreak", "Żółć", "key KEY", "--x", "/*", "''"]
)

# Names hold no control characters.
_NAMES = _TEXTS.filter(lambda text: all(unicodedata.category(each) != "Cc" for each in text))


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    lists = st.builds(lambda t, n: pa.list_(pa.field("element", t, n)), inner, st.booleans())
    maps = st.builds(
        lambda k, t, n: pa.map_(pa.field("key", k, False), pa.field("value", t, n)), _PLAIN, inner, st.booleans()
    )
    names = st.lists(_NAMES, min_size=1, max_size=3, unique=True)
    structs = names.flatmap(
        lambda chosen: st.tuples(*[st.tuples(st.just(name), inner, st.booleans()) for name in chosen]).map(
            lambda fields: pa.struct([pa.field(name, t, n) for name, t, n in fields])
        )
    )
    return st.one_of(lists, maps, structs)


_TYPES = st.recursive(_PLAIN, _nested, max_leaves=4)


@st.composite
def _tables(draw: st.DrawFn) -> tuple[TableSchema, dict[str, str], str]:
    names = draw(st.lists(_NAMES, min_size=1, max_size=5, unique_by=str.casefold))
    key = tuple(draw(st.lists(st.sampled_from(names), unique=True)))
    fields = []
    for name in names:
        comment = draw(st.none() | _TEXTS)
        nullable = draw(st.booleans()) and name not in key
        fields.append(pa.field(name, draw(_TYPES), nullable, {"comment": comment} if comment else None))
    partition_by = tuple(draw(st.lists(st.sampled_from(names), unique=True)))
    options = draw(st.dictionaries(_TEXTS, _TEXTS, max_size=3))
    return TableSchema(0, pa.schema(fields), key, partition_by), options, draw(st.just("") | _TEXTS)


@settings(max_examples=200, deadline=None)
@given(_tables(), st.sampled_from(["orders", "select", "a b", "t`x"]))
def test_round_trip(table: tuple[TableSchema, dict[str, str], str], name: str) -> None:
    schema, options, comment = table
    sql = to_create_sql(TableName("shop", name), schema, options=options, comment=comment)
    statement = parse_statement(sql)
    assert isinstance(statement, CreateTable)
    assert statement.name == Name("shop", name)
    assert statement.schema.equals(schema.arrow, check_metadata=True), sql
    assert (statement.primary_key, statement.partition_by) == (schema.primary_key, schema.partition_by)
    assert (dict(statement.options), statement.comment) == (options, comment)
    assert to_create_sql(TableName("shop", name), schema, options=statement.options, comment=statement.comment) == sql


def test_it_reads_well() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False, {"comment": "it's the key"}),
            pa.field("dt", pa.string(), False),
            ("v x", pa.float64()),
        ]
    )
    sql = to_create_sql(
        TableName("shop", "orders"),
        TableSchema(0, schema, ("id", "dt"), ("dt",)),
        options={"snapshot.time-retained": "3600", "bucket": "4"},
        comment="all orders",
    )
    assert sql == (
        "CREATE TABLE shop.orders (\n"
        "  id BIGINT NOT NULL COMMENT 'it\\'s the key',\n"
        "  dt STRING NOT NULL,\n"
        "  `v x` DOUBLE,\n"
        "  PRIMARY KEY (id, dt) NOT ENFORCED\n"
        ")\n"
        "COMMENT 'all orders'\n"
        "PARTITIONED BY (dt)\n"
        "WITH (\n"
        "  'bucket' = '4',\n"
        "  'snapshot.time-retained' = '3600 ms'\n"
        ")"
    )
