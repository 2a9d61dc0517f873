"""What the tests of pipelines share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["driver", "tasks"])
def reads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches are read by the driver program; the second time by tasks, as large ones are."""
    if request.param == "tasks":
        monkeypatch.setattr("writer.batch.read_few_rows", lambda *_: None)
