"""Options of Spark's Java process: its logging, and classes from an earlier start."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lakelog.spark.session.class_files import archive_options

_LOG_CONFIGURATION: Final = Path(__file__).with_name("log4j2.properties")
_LOG_PROPERTY: Final = "log4j2.configurationFile"
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"


def spark_submit_options(environment: Mapping[str, str], conf: Mapping[str, str], spark_home: Path) -> str:
    """The variable SPARK_SUBMIT_OPTS: the options of the environment, and ours for what these do not set."""
    given = " ".join(filter(None, [environment.get("SPARK_SUBMIT_OPTS"), conf.get(_DRIVER_OPTIONS)]))
    options = []
    if _LOG_PROPERTY not in given and not _has_log_configuration(environment, spark_home):
        options.append(f"-D{_LOG_PROPERTY}={_LOG_CONFIGURATION.as_uri()}")
    if "-XX:SharedArchiveFile" not in given and "-Xshare" not in given:
        options += archive_options(spark_home)
    return " ".join([*map(shlex.quote, options), *filter(None, [environment.get("SPARK_SUBMIT_OPTS")])])


def _has_log_configuration(environment: Mapping[str, str], spark_home: Path) -> bool:
    """Whether the user has put a logging configuration into Spark's folder of settings."""
    folder = Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf")
    return any(os.path.exists(folder / f"log4j2.{kind}") for kind in ("properties", "xml", "yaml", "json"))
