"""Each exit code of the documentation is provoked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from lakelog.cli.failures import EXIT_CODE_MEANINGS, ExitCode
from tests.integration.cli.lake import Lake, open_lake

WAYS = {
    ExitCode.FINE: [["database", "list"], ["--version"], ["completion", "bash"]],
    ExitCode.FAILED: [["delete", "shop.orders", "--where", "id = 1"]],
    ExitCode.USAGE: [["scan"], ["scan", "shop.orders", "--filter", "nonsense"], ["--nonsense"], ["nonsense"]],
    ExitCode.NOT_FOUND: [["table", "describe", "shop.gone"], ["insert", "shop.orders", "gone.csv"]],
    ExitCode.CONFLICT: [["database", "create", "shop"]],
    ExitCode.UNAVAILABLE: [["-t", "127.0.0.1:1", "status"]],
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with open_lake(tmp_path_factory.mktemp("lake")) as lake:
        yield lake


def test_each_code_is_documented_and_provoked() -> None:
    assert set(EXIT_CODE_MEANINGS) == set(ExitCode) == {*WAYS, ExitCode.INTERRUPTED}


@pytest.mark.parametrize(
    ("code", "words"), [(code, words) for code, ways in WAYS.items() if code is not ExitCode.FAILED for words in ways]
)
def test_a_code_is_what_it_says(lake: Lake, code: ExitCode, words: list[str]) -> None:
    assert lake.run(*words).code == code


def test_what_a_person_declines_has_failed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.cli.input.confirmation.click.confirm", lambda *_, **__: False)
    monkeypatch.setattr(
        "lakelog.cli.input.confirmation.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    )
    declined = lake.run(*WAYS[ExitCode.FAILED][0])
    assert (declined.code, declined.err) == (ExitCode.FAILED, "Error: Nothing was deleted.\n")


def test_ctrl_c_has_the_code_of_interrupted_programs(lake: Lake) -> None:
    words = [sys.executable, "-m", "lakelog.cli.main", "-t", lake.target, "tail", "shop.orders", "--after", "0", "-f"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(os.environ))
    assert process.stdout is not None
    # It follows once there is something.
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.stdout.close()
    assert process.wait(60) == ExitCode.INTERRUPTED
