"""Temporary views of Spark for the tables of a database."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from lakelog.arguments import check_text
from lakelog.spark.installation import CATALOG, installation_of
from lakelog.spark.names.statements import check_named

_QUOTE: Final = "`"


def create_views(spark: SparkSession, database: str, prefix: str = "") -> list[str]:
    """Makes a temporary view for each table of a database, under the table's name.

    A view shows the table's newest snapshot whenever it is queried. A later call makes views of new tables, takes over
    changed columns, and drops the views of tables that are gone; it leaves other views alone.

    Args:
        spark: A session in which lakelog is installed.
        database: The database.
        prefix: Put before each name, for instance "shop_".

    Returns:
        The names of the views, sorted.

    Raises:
        NotFound: There is no such database.
        InvalidArgument: An argument is not possible, or this Spark does not know lakelog's tables by name.
    """
    check_text(database, "database", "shop")
    check_text(prefix, "prefix", "shop_")
    check_named(spark, "lakelog.spark.create_views")
    installation = installation_of(spark)
    tables = installation.catalog.tables(database)
    made = {prefix + table for table in tables}
    for table in tables:
        place = ".".join(map(_quoted, (CATALOG, database, table)))
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_quoted(prefix + table)} AS SELECT * FROM {place}")
    earlier = installation.views.get((database, prefix), set())
    for name in earlier - made:
        spark.catalog.dropTempView(name)
    installation.views[database, prefix] = made
    return sorted(made)


def _quoted(name: str) -> str:
    return _QUOTE + name.replace(_QUOTE, 2 * _QUOTE) + _QUOTE
