"""Tests that set logs up leave them as they were for others."""

from __future__ import annotations

import logging

import pytest
import structlog

from lakelog.serving.logging_setup import set_up_logging
from tests.support.log_settings import kept_log_settings


def test_logs_are_returned_again_as_before(caplog: pytest.LogCaptureFixture) -> None:
    root, library = logging.getLogger(), logging.getLogger("py4j")
    before = (list(root.handlers), root.level, library.level, structlog.is_configured(), structlog.get_config())
    with kept_log_settings():
        set_up_logging("error")
        root.warning("not told")
        assert library.level == logging.WARNING
        assert structlog.get_config() != before[-1]
    root.warning("reported")
    assert caplog.messages == ["reported"]
    after = (list(root.handlers), root.level, library.level, structlog.is_configured(), structlog.get_config())
    assert after == before
