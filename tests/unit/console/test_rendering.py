"""Values as HTML: whatever they hold is text, and what is cut can be read as a whole."""

from __future__ import annotations

from console.http.rendering import show

_ID = "0123456789abcdef" * 2


def test_long_ids_are_cut_and_can_be_read_as_a_whole() -> None:
    assert show(f"sdk-{_ID}", "ids") == f'<code title="sdk-{_ID}">sdk-01234567…</code>'
    assert show("pricing", "ids") == '<code title="pricing">pricing</code>'
    assert "<b>" not in show(f'"><b>{_ID}', "ids")


def test_prose_has_code_between_accents() -> None:
    assert show("the `a<b` option", "prose") == "the <code>a&lt;b</code> option"
    assert show("an odd ` accent", "prose") == "an odd <code> accent</code>"
    assert len(show("word " * 300, "prose")) == 1500


def test_growth_has_its_sign() -> None:
    assert show(2048, "growth") == '<span title="+2,048 bytes">+2.0 KiB</span>'
    assert show(-2048, "growth") == '<span title="−2,048 bytes">−2.0 KiB</span>'
    assert show(0, "growth") == '<span title="+0 bytes">+0 B</span>'


def test_a_time_says_its_zone() -> None:
    assert 'title="2024-05-01T00:00:00' in show(1_714_521_600_000, "time")
    assert 'Z"' in show(1_714_521_600_000, "time")
