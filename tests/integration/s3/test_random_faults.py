"""Random histories on S3 with faults lose nothing, double nothing and tear nothing."""

from __future__ import annotations

import os

import pytest

from lakelog.errors import DataCorrupted
from lakelog.storage.objects import s3, s3_input
from lakelog.storage.objects.store import S3Settings
from tests.integration.s3.faulty_history import FaultyHistory

HISTORIES = int(os.environ.get("LAKELOG_S3_HISTORIES", "4"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + HISTORIES))
def test_a_random_history_with_faults_ends_as_its_model(s3_settings: S3Settings, seed: int) -> None:
    history = FaultyHistory(s3_settings, seed)
    history.run()
    assert sum(history.proxy.effects.values()) > 5, history.proxy.effects
    assert not history.unanswered, "repeated requests hide such faults"


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 4))
def test_control_without_repeated_requests_calls_fail_but_nothing_is_lost(s3_settings: S3Settings, seed: int) -> None:
    history = FaultyHistory(s3_settings, seed, attempts=1, share=0.03, looks_up=False)
    history.run()
    assert history.unanswered, history.proxy.effects


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 4))
def test_control_without_the_check_of_lengths_the_history_fails(
    s3_settings: S3Settings, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unchecked(opened: s3_input.Opened, ask: s3_input.Ask, name: str) -> s3_input.S3Input:
        return s3_input.open_s3_input(opened, ask, name, checks_length=False)

    monkeypatch.setattr(s3, "open_s3_input", unchecked)
    with pytest.raises((DataCorrupted, AssertionError)):
        run_some(s3_settings, seed)


def run_some(s3_settings: S3Settings, seed: int) -> None:
    """Runs several histories: short answers strike by chance, and one can end before any of them matters."""
    for number in range(5):
        FaultyHistory(s3_settings, seed + 1000 * number).run()
