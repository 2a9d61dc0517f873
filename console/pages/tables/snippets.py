"""What to copy to use a table elsewhere. Pure, except that the DDL is the catalog's."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.sdk.tables.table import Table
from lakelog.sql import create_sql_of


@dataclass(frozen=True)
class Snippet:
    """A text to copy.

    Args:
        title: What it is for.
        language: Of the text.
        text: The text.
        note: What has to be known of it.
    """

    title: str
    language: str
    text: str
    note: str = ""


def list_snippets(table: Table, target: str) -> list[Snippet]:
    """The table's DDL, and how it is read by SDK, SQL, Spark, the CLI, and Iceberg.

    Args:
        table: The table.
        target: The metastore's address, as the console reaches it.
    """
    name, write = table.name, "upsert" if table.primary_key else "append"
    connect = f'import lakelog\n\ncatalog = lakelog.connect("{target}")\ntable = catalog.table("{name}")\n'
    return [
        Snippet("DDL", "sql", create_sql_of(table).rstrip(";\n") + ";", "The statement that makes a table like this."),
        Snippet(
            "SDK",
            "python",
            f"{connect}for row in table.scan(limit=10).to_arrow().to_pylist():\n    print(row)\n# table.{write}(rows)",
            "Where callers have tokens, set LAKELOG_TOKEN; with TLS, LAKELOG_TLS_CA. The texts below need them, too.",
        ),
        Snippet(
            "SDK, what changes from now on",
            "python",
            f"{connect}with table.subscribe('latest') as changes:\n    for batch in changes:\n"
            "        print(batch.snapshot_id, batch.data.to_pylist())",
            "It waits for changes until you end it.",
        ),
        Snippet("SQL", "sql", f"SELECT * FROM {name} LIMIT 10;", "For lakelog sql, or catalog.sql(...) of the SDK."),
        Snippet(
            "Spark",
            "python",
            f'import lakelog.spark\n\nspark = lakelog.spark.build_session("reader", target="{target}")\n'
            f'lakelog.spark.read_table(spark, "{name}").show(10)',
            "Where Spark is installed: lakelog[spark].",
        ),
        Snippet(
            "CLI",
            "sh",
            f"export LAKELOG_TARGET={target}\nlakelog table describe {name}\nlakelog scan {name} --limit 10\n"
            f'lakelog sql -e "SELECT * FROM {name} LIMIT 10"\nlakelog tail {name} --follow',
            "The last one waits for changes until you end it.",
        ),
        Snippet(
            "Iceberg",
            "python",
            f"# Engines for Iceberg cannot read this table in its place: copy it.\n"
            f"import pyarrow as pa\nfrom pyiceberg.catalog import load_catalog\n\n{connect}"
            f'copy = load_catalog("default").create_table("{name}", schema=table.schema)\n'
            "for batch in table.scan().to_batches():\n    copy.append(pa.Table.from_batches([batch]))",
            "lakelog has a format of its own (Parquet files, with their list in the metastore) and serves no Iceberg "
            "catalog. This copies the rows of now with PyIceberg, into the catalog that its settings call default.",
        ),
    ]
