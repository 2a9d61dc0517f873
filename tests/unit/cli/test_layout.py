from rich.cells import cell_len

from lakelog.cli.output.layout import Cell, Layout, cut_text, measure, plan_layout


def cells(*texts: str) -> list[Cell]:
    return [Cell(text) for text in texts]


def plain(text: str, style: str) -> str:
    return text


def lay_out(titles: list[str], right: list[bool], row: list[Cell], width: int | None) -> Layout:
    return plan_layout(titles, right, measure(titles, [row]), [8] * len(titles), width)


def test_columns_are_as_wide_as_their_widest_value() -> None:
    layout = lay_out(["A", "COUNT"], [False, True], cells("long one", "12345"), 80)
    assert layout.widths == (8, 5)
    assert layout.header(plain) == "A         COUNT"
    assert layout.line(cells("x", "7"), plain) == "x             7"


def test_the_widest_columns_are_cut_first() -> None:
    layout = lay_out(["A", "B", "C"], [False] * 3, cells("short", "x" * 50, "y" * 30), 40)
    assert sum(layout.widths) + 4 == 40
    assert layout.widths[0] == 5
    line = layout.line(cells("short", "x" * 50, "y" * 30), plain)
    assert cell_len(line) == 40
    assert line.count("…") == 2


def test_columns_that_do_not_fit_are_left_out() -> None:
    titles = [f"column_{i:02}" for i in range(20)]
    row = cells(*("value" for _ in titles))
    layout = lay_out(titles, [False] * 20, row, 50)
    assert cell_len(layout.line(row, plain)) <= 50
    assert layout.hidden == tuple(titles[len(layout.widths) :])
    assert len(layout.widths) == 5
    assert len(lay_out(titles, [False] * 20, row, 3).widths) == 1


def test_columns_that_may_not_be_cut_are_whole() -> None:
    layout = plan_layout(["TIME", "TEXT"], [False] * 2, [24, 100], [24, 8], 50)
    assert layout.widths == (24, 24)
    assert plan_layout(["TIME", "TEXT"], [False] * 2, [24, 100], [24, 8], 33).widths == (24,)


def test_nothing_is_cut_where_there_is_no_terminal() -> None:
    layout = lay_out(["A", "B"], [False, False], cells("a", "b"), None)
    assert layout.line(cells("x" * 500, "end"), plain) == "x" * 500 + "  end"


def test_wide_characters_count_twice() -> None:
    assert cut_text("東京タワー", 10) == "東京タワー"
    assert cut_text("東京タワー", 7) == "東京タ…"
    assert cell_len(cut_text("東京タワー", 6)) <= 6
    assert cut_text("abc", 1) == "…"
