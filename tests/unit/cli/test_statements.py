import pytest

from lakelog.cli.commands.rows.statements import split_statements


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1"], "SELECT 2"),
        ("SELECT ';', 'it''s;', \"a;b\", `c;d`, 'e\\';' ;", ["SELECT ';', 'it''s;', \"a;b\", `c;d`, 'e\\';'"], ""),
        ("SELECT 1 -- not; here's\n + 1 /* nor; here */;", ["SELECT 1 -- not; here's\n + 1 /* nor; here */"], ""),
        ("; ;\n; -- nothing\n", [], ""),
        ("SELECT 3-2/1;", ["SELECT 3-2/1"], ""),
        ("SELECT 1; SELECT 'open; still", ["SELECT 1"], " SELECT 'open; still"),
        ("SELECT 1; /* open; still", ["SELECT 1"], " /* open; still"),
        ("", [], ""),
    ],
)
def test_statements_end_at_semicolons_outside_of_texts(text: str, statements: list[str], rest: str) -> None:
    assert split_statements(text) == (statements, rest)


def test_a_long_script_is_split_in_reasonable_time() -> None:
    values = ", ".join(f"({i}, 'text {i}')" for i in range(100_000))
    statements, rest = split_statements(f"INSERT INTO t VALUES {values};")
    assert (len(statements), rest) == (1, "")
