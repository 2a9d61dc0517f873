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
    return [
        Snippet("DDL", "sql", create_sql_of(table).rstrip(";\n") + ";", "The statement that makes a table like this."),
        Snippet(
            "SDK",
            "python",
            f'import lakelog\n\ncatalog = lakelog.connect("{target}")\ntable = catalog.table("{name}")\n'
            f"table.scan(limit=10).to_arrow()\nwith table.subscribe() as changes:\n    for batch in changes:\n"
            f"        print(batch.snapshot_id, batch.data.num_rows)\n# table.{write}(rows)",
        ),
        Snippet("SQL", "sql", f"SELECT * FROM {name} LIMIT 10;", "For lakelog sql, or catalog.sql(...) of the SDK."),
        Snippet(
            "Spark",
            "python",
            f'import lakelog.spark\n\nlakelog.spark.read_table(spark, "{name}").show()\n'
            f'spark.readStream.format("lakelog").option("table", "{name}").load()',
            "In a session that lakelog.spark has set up.",
        ),
        Snippet("CLI", "sh", f"lakelog table describe {name}\nlakelog scan {name} --limit 10\nlakelog tail {name}"),
        Snippet(
            "Iceberg",
            "python",
            f"# Engines for Iceberg cannot read this table in its place: copy it.\n"
            f'copy = iceberg_catalog.create_table("{name}", schema=table.schema)\n'
            "for batch in table.scan().to_batches():\n    copy.append(pa.Table.from_batches([batch]))",
            "lakelog has a format of its own (Parquet files, with their list in the metastore) and serves no Iceberg "
            "catalog. This copies the rows of now with PyIceberg.",
        ),
    ]
