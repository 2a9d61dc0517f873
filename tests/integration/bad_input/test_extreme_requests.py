"""Requests of valid form and extreme content: each gets an explained answer, and an honest client never notices.

A round that fails names its seed; `./run bench FUZZ --seed N --runs 1` sends the same requests again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.requests.lab import RequestLab, RequestLabError, RequestReport
from lakelog.format.commit import rules, totals
from lakelog.testing import EmbeddedStack
from metastore.store import validation
from metastore.store.limits import MAX_INT64
from metastore.use_cases import UseCases
from tests.support.forked_stack import forked_stack
from tests.support.metastore.serving import serving

CALLS = 1_500


@pytest.fixture(scope="module")
def services() -> Iterator[EmbeddedStack]:
    with (
        tempfile.TemporaryDirectory(prefix="ll-requests-", ignore_cleanup_errors=True) as folder,
        forked_stack(Path(folder), services=("metastore", "reader")) as stack,
    ):
        yield stack


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(8))
def test_no_request_harms_another(services: EmbeddedStack, seed: int) -> None:
    lab = RequestLab(services.target, services.reader_target, list(services.logs.values()))
    report = RequestReport()
    try:
        lab.run_round(seed, CALLS, report)
    finally:
        lab.close()
    assert report.outcomes["OK"] > CALLS // 10, "most requests must mean something, or nothing is tested"
    assert len(report.outcomes) > 15, f"the requests reach too little: {report.outcomes}"


def remove_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_FILE_ROWS", "MAX_FILE_BYTES", "MAX_CHANGE_ROWS", "MAX_CHANGE_BYTES"):
        monkeypatch.setattr(validation, name, MAX_INT64)
    for name in ("MAX_TABLE_ROWS", "MAX_TABLE_BYTES"):
        monkeypatch.setattr(totals, name, 1 << 70)


def remove_the_rule_for_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (validation, rules):
        monkeypatch.setattr(module, "is_path", lambda path: len(path) <= 1024)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("remove", "harm"), [(remove_bounds, "out of range|INTERNAL"), (remove_the_rule_for_paths, "no store takes")]
)
def test_control_without_a_protection_a_round_finds_the_harm(
    migrated_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    remove: Callable[[pytest.MonkeyPatch], None],
    harm: str,
) -> None:
    remove(monkeypatch)
    with serving(migrated_url, lambda store: UseCases(store, f"file://{tmp_path}/")) as target:
        lab = RequestLab(target)
        try:
            with pytest.raises(RequestLabError, match=harm):  # noqa: PT012 - the first that finds it
                for seed in range(3, 11):
                    lab.run_round(seed, 1_000, RequestReport(), only="/Commit")
        finally:
            lab.close()
