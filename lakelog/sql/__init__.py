"""SQL: statements of `lakelog sql` and `catalog.sql(...)`, read by a grammar of ours, queries by sqlglot and DuckDB."""

from lakelog.sql.create_table import to_create_sql
from lakelog.sql.parser import parse_statement
from lakelog.sql.session import SqlResult, SqlSession, create_sql_of

__all__ = ["SqlResult", "SqlSession", "create_sql_of", "parse_statement", "to_create_sql"]
