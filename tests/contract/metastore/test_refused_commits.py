"""A stream of commits that are refused writes few log lines; each commit of it that takes effect has one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from lakelog.errors import PermissionDenied
from lakelog.serving.edge import refusal_lines
from lakelog.serving.edge.refusal_lines import RefusalLines
from metastore.server.logging_setup import set_up_logging
from tests.support.log_settings import kept_log_settings
from tests.support.metastore.making import append, empty, make_table
from tests.support.metastore.parties import Parties, open_parties

COUNT = 300


@pytest.fixture
def parties(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parties]:
    """With few lines, so that a short stream meets the limit."""
    monkeypatch.setattr(refusal_lines, "BURST", 10.0)
    with open_parties(None) as opened:
        yield opened


def commit_under_two_names(parties: Parties, capfd: pytest.CaptureFixture[str]) -> Counter[str]:
    """How many lines of each kind a stream of bob's writes, of which every second commit is under alice's name."""
    table = make_table(parties.root)
    append(parties.alice, table, 1, writer="hers")
    with kept_log_settings():
        set_up_logging("info")
        capfd.readouterr()
        pipeline = parties.bob.open_commit_pipeline()
        answers = [pipeline.submit(empty(table, n, writer=name)) for n in range(2, 2 + COUNT) for name in ("hers", "b")]
        failures = [answer.exception(60) for answer in answers]
        pipeline.close()
        lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert [type(failure) for failure in failures] == [PermissionDenied, type(None)] * COUNT
    # The stream itself has a line without a writer, at its end.
    return Counter(line["event"] for line in lines if line.get("writer"))


def test_refused_commits_have_few_lines(parties: Parties, capfd: pytest.CaptureFixture[str]) -> None:
    found = commit_under_two_names(parties, capfd)
    assert found["mutation"] == COUNT
    assert 10 <= found["refused"] < COUNT / 2


def test_control_with_a_line_for_each(
    parties: Parties, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefusalLines, "admit", lambda *_: True)
    found = commit_under_two_names(parties, capfd)
    assert (found["mutation"], found["refused"]) == (COUNT, COUNT)
