"""A table of orders through SQL."""

from __future__ import annotations

from typing import Any

from lakelog.sql import SqlSession

ORDERS = """
    CREATE TABLE orders (
      id BIGINT, dt STRING, price DECIMAL(10, 2) COMMENT 'in euros', rating DOUBLE,
      PRIMARY KEY (dt, id) NOT ENFORCED
    ) PARTITIONED BY (dt) WITH ('bucket' = '2')
"""


def rows(session: SqlSession, sql: str) -> list[tuple[Any, ...]]:
    result = session.execute(sql).rows
    assert result is not None
    return [tuple(row.values()) for row in result.to_pylist()]


def fill(session: SqlSession) -> None:
    session.execute(ORDERS)
    session.execute("INSERT INTO orders VALUES (1, 'a', 1.50, 0.5), (2, 'a', 2, NULL)")
    session.execute("INSERT INTO orders (dt, id, price, rating) VALUES ('a', 1, 9.99, DEFAULT), ('b', 1, 3, NULL)")
