"""Logs as they were: a test that sets the logs of its process up, as services do, leaves no trace for other tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from metastore.server import audit


@contextmanager
def kept_log_settings() -> Iterator[None]:
    """Puts back, at the end, what `set_up_logging` changes: the root logger, levels of libraries, and structlog.

    Without that `caplog` hears nothing in later tests: its handler is gone from the root logger, or the level is above.
    """
    root = logging.getLogger()
    handlers, level, levels = list(root.handlers), root.level, _find_levels()
    configuration = structlog.get_config() if structlog.is_configured() else None
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name in _find_levels():
            logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))
        structlog.reset_defaults()
        forget_first_use()
        if configuration is not None:
            structlog.configure(**configuration)


def forget_first_use() -> None:
    """Lets the loggers of modules follow the settings again: each keeps those that it was first used with."""
    vars(audit.log).pop("bind", None)


def _find_levels() -> dict[str, int]:
    known = logging.root.manager.loggerDict.items()
    return {name: logger.level for name, logger in known if isinstance(logger, logging.Logger)}
