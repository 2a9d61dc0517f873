"""Columns that a query names with the database or the catalog of their table, as in `web.shop.orders.id`. Pure.

DuckDB sees each table as a relation without database and catalog. So tables of one name need names of their own, and
each column the name of its table's relation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from lakelog.errors import InvalidArgument
from lakelog.sql.statements import Name


@dataclass(frozen=True)
class NamedNode:
    """A table of a query, and its place in the tree."""

    name: Name
    node: exp.Table


def name_tables(tree: exp.Query, tables: Sequence[NamedNode], own: str) -> Mapping[int, str]:
    """Gives tables distinct names, and changes the columns of the tree to these.

    Args:
        tree: The query; changed.
        tables: Its tables, without those that WITH defines.
        own: The name of the session's catalog; empty: it has none.

    Returns:
        The name of each table without an alias, by the id of its node. It is that of the table, or for a name with
        three parts the full name, if another part of the query has a table of the same name.

    Raises:
        InvalidArgument: A column can be one of several tables.
    """
    sources = list(tree.find_all(exp.Table, exp.Subquery))
    shown = [each.alias_or_name.casefold() for each in sources]
    bare = [each for each in tables if not each.node.alias]
    names = {
        id(each.node): str(each.name)
        if each.name.catalog and shown.count(_fold(each.name.table)) > 1
        else each.node.name
        for each in bare
    }
    repeated = {_fold(each.name.table) for each in bare if names[id(each.node)] != each.node.name}
    for column in list(tree.find_all(exp.Column)):
        if column.args.get("db") or _fold(column.table) in repeated:
            found = _find_table(column, bare, sources, own)
            if found is not None:
                column.set("db", None)
                column.set("catalog", None)
                column.set("table", exp.to_identifier(names[id(found.node)], quoted=True))
    return names


def _find_table(
    column: exp.Column, tables: Sequence[NamedNode], sources: Sequence[exp.Expr], own: str
) -> NamedNode | None:
    """The table that a column names, of the nearest SELECT that has such a table; None: it has an alias, or none fits.

    A name without a catalog means the session's, as in FROM. Only if no table of it fits, it can mean another one.
    """
    for is_exact in (True, False):
        for select in _selects(column):
            here = [each for each in sources if each.find_ancestor(exp.Select) is select]
            places = {id(each) for each in here}
            found = [each for each in tables if id(each.node) in places and _fits(column, each.name, own, is_exact)]
            others = [] if column.args.get("db") else _find_others(column, tables, here)
            if len(found) + len(others) > 1:
                raise _ambiguous(column, found)
            if found or others:
                return found[0] if found else None
    return None


def _ambiguous(column: exp.Column, found: Sequence[NamedNode]) -> InvalidArgument:
    places = " or ".join(str(each.name) for each in found)
    return InvalidArgument(
        f"The query cannot be run: {column.sql('spark')[:200]} can be a column of {places or 'several tables'}. Give "
        f"the tables aliases, as in FROM {found[0].name if found else 'shop.orders'} a, and write a.{column.name}.",
        reason="SQL_SYNTAX",
    )


def _find_others(column: exp.Column, tables: Sequence[NamedNode], here: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The aliases, and the names that WITH defines, that a column's table can be."""
    named = {id(each.node) for each in tables}
    return [each for each in here if id(each) not in named and _fold(each.alias_or_name) == _fold(column.table)]


def _selects(column: exp.Column) -> Iterator[exp.Select]:
    """The SELECTs around a column, the nearest first."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        yield select
        select = select.find_ancestor(exp.Select)


def _fits(column: exp.Column, name: Name, own: str, is_exact: bool) -> bool:
    if _fold(name.table) != _fold(column.table):
        return False
    if column.args.get("db") and _fold(name.database or "") != _fold(column.db):
        return False
    if column.args.get("catalog"):
        return (name.catalog or own) == column.catalog
    return not column.args.get("db") or not is_exact or (name.catalog or own) == own


def _fold(text: str) -> str:
    return text.casefold()
