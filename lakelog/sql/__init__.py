"""SQL: the statements of `lakelog sql` and `catalog.sql(...)`. A grammar of ours reads them; DuckDB runs queries."""

from lakelog.sql.create_table import to_create_sql
from lakelog.sql.parser import parse_statement
from lakelog.sql.session import SqlResult, SqlSession, create_sql_of

__all__ = ["SqlResult", "SqlSession", "create_sql_of", "parse_statement", "to_create_sql"]
