"""Lines of librdkafka do not flood a log."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from lakelog.log.kafka.client_lines import OncePerMinute


def _record(text: str) -> logging.LogRecord:
    return logging.LogRecord("lakelog.log.kafka", logging.ERROR, "", 0, "%s", (text,), None)


def test_one_a_minute_of_lines_that_differ_in_numbers() -> None:
    now_s = 100.0
    lines = OncePerMinute(lambda: now_s)
    assert lines.filter(_record("FAIL [producer-1]: 127.0.0.1:9092: Connection refused (after 3ms)"))
    assert not lines.filter(_record("FAIL [producer-2]: 127.0.0.1:9093: Connection refused (after 11ms)"))
    assert lines.filter(_record("FAIL [producer-1]: SASL authentication error"))
    now_s = 159.0
    assert not lines.filter(_record("FAIL [producer-1]: 127.0.0.1:9092: Connection refused (after 1ms)"))
    now_s = 160.0
    assert lines.filter(_record("FAIL [producer-1]: 127.0.0.1:9092: Connection refused (after 1ms)"))


def test_what_is_remembered_is_bounded() -> None:
    lines = OncePerMinute(lambda: 0.0)
    for number in range(5000):
        # Letters, since lines that differ in numbers are one kind.
        assert lines.filter(_record(f"{number:b}".replace("0", "a").replace("1", "b")))
    assert len(lines._let_through_s) <= 1000


@pytest.mark.parametrize("configured", [False, True])
def test_only_programs_that_have_said_where_logs_go_show_them(configured: bool) -> None:
    program = "import logging\nfrom lakelog.log.kafka.client_lines import LOGGER\n"
    program += "logging.basicConfig()\n" if configured else ""
    program += "LOGGER.error('FAIL: connection refused')\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ("FAIL" in done.stderr) is configured
