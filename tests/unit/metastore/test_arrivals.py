"""Requests on their way are counted right, though destructors run in the midst of a count."""

from __future__ import annotations

from collections import Counter

import pytest

from metastore.server.edge.arrivals import Arrival, Arrivals


class Interrupted(Counter[str | None]):
    """Forgets a request whenever it is read, as another thread or the garbage collector could."""

    def __init__(self) -> None:
        super().__init__()
        self.to_forget: list[Arrival | None] = []

    def __getitem__(self, caller: str | None) -> int:
        count = super().__getitem__(caller)
        if self.to_forget:
            self.to_forget.pop()
        return count


@pytest.mark.parametrize("leaves_note", [True, False], ids=["protected", "control"])
def test_a_request_that_is_forgotten_in_the_midst_of_a_count_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, leaves_note: bool
) -> None:
    if not leaves_note:
        monkeypatch.setattr(Arrivals, "lose", Arrivals.end)
    arrivals, counts = Arrivals(), Interrupted()
    monkeypatch.setattr(arrivals, "_counts", counts)
    opened = [arrivals.begin("ann", 8) for _ in range(4)]
    counts.to_forget, opened = opened, []
    # It reads the count twice, and each time another request ends.
    last = arrivals.begin("ann", 8)
    counts.to_forget.clear()
    assert (arrivals.counts == {"ann": 1}) is leaves_note
    assert last is not None
