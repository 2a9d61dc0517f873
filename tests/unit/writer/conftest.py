from __future__ import annotations

import pytest

from .topics import Topics


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    """A broker in memory with the topic `orders`, which all sources read."""
    made = Topics()
    for module in ("topic", "tasks"):
        monkeypatch.setattr(f"writer.kafka.{module}.open_log", lambda source: made.log)
    made.make()
    return made
