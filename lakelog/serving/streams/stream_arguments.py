"""What a service that runs streams in Spark under leases is told, with names of variables of its own."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Final

from lakelog.serving.arguments import Values, refusal
from lakelog.serving.streams.spark_log_file import SPARK_LOG

_SPARK_CONF: Final = (
    "LAKELOG_SPARK_CONF",
    "A setting of Spark as key=value; may come often. The variable: separated by ;",
)

_SPARK_MASTER: Final = re.compile(
    r"local(\[(\*|[1-9]\d*)(\s*,\s*[1-9]\d*)?\])?|local-cluster\[[\d\s,]+\]|yarn|(spark|k8s)://\S+"
)
"""What Spark takes; it finds out only when it starts, which for some services is at the first large job."""


def make_stream_arguments(prefix: str, work: str) -> dict[str, tuple[str, str]]:
    """The arguments that take a value, as `add_arguments` and `Values` take them. Pure.

    Args:
        prefix: Begins the variables, for instance `LAKELOG_WRITER`.
        work: What ends when the metastore is away for too long.
    """
    return {
        "lease-seconds": (
            f"{prefix}_LEASE_SECONDS",
            "How long another instance waits after this one was last heard of; 1 to 3600, default 30.",
        ),
        "patience-seconds": (
            f"{prefix}_PATIENCE_SECONDS",
            f"How long the metastore may be away before {work} ends; default 300.",
        ),
        "metrics-port": (f"{prefix}_METRICS_PORT", "Port of /metrics for Prometheus; default: none; 0: a free one."),
        "metrics-host": (f"{prefix}_METRICS_HOST", "Where /metrics listens; default 127.0.0.1."),
        "spark-master": ("LAKELOG_SPARK_MASTER", "Where Spark's tasks run; default local[2]."),
    }


def add_spark_settings(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that gives a setting of Spark."""
    variable, text = _SPARK_CONF
    parser.add_argument("--spark-conf", action="append", metavar="KEY=VALUE", help=f"{text} [{variable}]")
    variable, text = SPARK_LOG
    parser.add_argument("--spark-log", metavar="FILE", help=f"{text} [{variable}]")


def read_spark_settings(given: Sequence[str] | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of Spark, each `key=value`: those of the variable, apart by semicolons, and above them the arguments."""
    settings = {}
    for item in [*filter(None, environment.get(_SPARK_CONF[0], "").split(";")), *(given or ())]:
        key, equals, value = item.partition("=")
        if not equals or not key.startswith("spark."):
            raise refusal(f"--spark-conf {item}: write it as spark.some.setting=value.")
        settings[key.strip()] = value
    return settings


def read_spark_log(given: str | None, environment: Mapping[str, str]) -> str | None:
    """Where Spark's log is to go; the argument wins over its variable. None: nothing is said."""
    return given or environment.get(SPARK_LOG[0]) or None


def read_spark_master(values: Values, default: str) -> str:
    """Where Spark's tasks run; `default` where nothing is said."""
    master = (values.text("spark_master") or "").strip() or default
    if master and not _SPARK_MASTER.fullmatch(master):
        raise refusal(
            f"--spark-master={master} is no master of Spark: write local[4], spark://host:7077, yarn or k8s://URL."
        )
    return master
