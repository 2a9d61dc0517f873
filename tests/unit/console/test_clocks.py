"""How the console compares its clock with the metastore's."""

from __future__ import annotations

from console.pages.service_settings import compare_clocks


def test_clocks_differ_only_by_what_the_request_cannot_explain() -> None:
    assert compare_clocks(1_000, 900, 1_200) == 0, "a slow request is no difference of clocks"
    assert compare_clocks(900, 900, 900) == 0
    assert compare_clocks(1_500, 900, 1_200) == 300
    assert compare_clocks(850, 900, 1_200) == -50
