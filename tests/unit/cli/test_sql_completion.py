"""The tabulator at the prompt for SQL: names that there are, from all that is typed of a statement."""

from __future__ import annotations

import pytest

from lakelog.cli.commands.rows.sql_completion import Completer, complete_word


class Lake:
    def databases(self) -> list[str]:
        return ["shop", "sales", "a b"]

    def tables(self, database: str) -> list[str]:
        return {"shop": ["orders", "order_items", "x'y"], "sales": ["days"]}.get(database, [])

    def columns(self, table: str) -> list[str]:
        return {"shop.orders": ["id", "item", "a;b"], "sales.days": ["day", "item"]}.get(table, [])


@pytest.mark.parametrize(
    ("database", "statement", "word", "found"),
    [
        (None, "SELECT * FROM s", "s", ["shop.", "sales.", "sys."]),
        (None, "SELECT * FROM shop.or", "shop.or", ["shop.orders", "shop.order_items"]),
        (None, "SELECT * FROM shop.", "shop.", ["shop.orders", "shop.order_items"]),
        (None, "SELECT * FROM or", "or", []),
        ("shop", "SELECT * FROM or", "or", ["orders", "order_items"]),
        ("shop", "SELECT * FROM orders$fi", "orders$fi", ["orders$files"]),
        (None, "SELECT * FROM sys.ta", "sys.ta", ["sys.tables"]),
        (None, "SELECT * FROM shop.orders\nWHERE i", "i", ["id", "item"]),
        ("shop", "SELECT * FROM orders JOIN sales.days ON i", "i", ["id", "item"]),
        (None, "UPDATE shop.orders SET it", "it", ["item"]),
        (None, "SELECT * FROM shop.nothing WHERE i", "i", []),
    ],
)
def test_words_become_names(database: str | None, statement: str, word: str, found: list[str]) -> None:
    assert complete_word(Lake(), database, statement, word) == found


def test_readline_gets_one_after_the_other_and_a_pasted_line_stays_indented(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "WHERE i"
    monkeypatch.setattr("readline.get_line_buffer", lambda: line)
    completer = Completer(Lake, lambda: "shop")
    completer.typed = "SELECT * FROM orders\n"
    assert [completer("i", number) for number in range(3)] == ["id", "item", None]
    line = ""
    assert [completer("", number) for number in range(2)] == ["    ", None]
