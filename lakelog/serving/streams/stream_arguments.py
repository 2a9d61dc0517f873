"""Settings of a service that runs streams in Spark under leases, with its own variables."""

from __future__ import annotations

import re
from typing import Any, Final

from lakelog.serving.arguments import Argument, Values, refusal
from lakelog.serving.settings import number, port, setting

_SPARK_MASTER: Final = re.compile(
    r"local(\[(\*|[1-9]\d*)(\s*,\s*[1-9]\d*)?\])?|local-cluster\[[\d\s,]+\]|yarn|(spark|k8s)://\S+"
)
"""A master that Spark accepts. Spark itself checks it only at its start, for some services at the first large job."""


def lease_setting(
    prefix: str,
    what: str = "How long after its last renewal another instance takes the lease over; 1 to 3600, default 30.",
    default_s: float = 30.0,
) -> Any:
    """How long a lease lasts without a renewal; `prefix` begins the variable, for instance `LAKELOG_WRITER`."""
    return number("lease-seconds", f"{prefix}_LEASE_SECONDS", what, default_s, 1.0, 3600.0)


def max_unavailable_setting(prefix: str, work: str) -> Any:
    """How long failures that may pass can last before `work` ends."""
    what = f"How long the metastore can be away before {work} ends; default 300."
    return number("patience-seconds", f"{prefix}_PATIENCE_SECONDS", what, 300.0, 0.0, 1e6)


def metrics_port_setting(prefix: str) -> Any:
    """The port of the pages; None: no pages."""
    what = "Port of /metrics for Prometheus, /healthz and /livez; default: none; 0: a free one."
    return port("metrics-port", f"{prefix}_METRICS_PORT", what)


def metrics_host_setting(prefix: str) -> Any:
    """The address of the pages."""
    return setting(
        lambda values: values.text("metrics-host") or "127.0.0.1",
        Argument("metrics-host", f"{prefix}_METRICS_HOST", "Where they listen; default 127.0.0.1."),
    )


def spark_master_setting(
    variable: str = "LAKELOG_SPARK_MASTER",
    what: str = "Where Spark's tasks run; default local[2].",
    default: str = "local[2]",
) -> Any:
    """Where Spark's tasks run."""
    return setting(lambda values: _read_spark_master(values, default), Argument("spark-master", variable, what))


def spark_conf_setting() -> Any:
    """Settings of Spark by key; arguments win over the variable."""
    return setting(
        _read_spark_conf,
        Argument(
            "spark-conf",
            "LAKELOG_SPARK_CONF",
            "A setting of Spark as key=value; repeatable. In the variable, separate settings by ;",
            {"action": "append", "metavar": "KEY=VALUE"},
        ),
    )


def spark_log_setting() -> Any:
    """The file for Spark's log; `-`: standard error; None: one in the user's cache."""
    return setting(
        # An empty argument counts as not given, so that the variable decides.
        lambda values: values.given("spark-log") or values.variable("spark-log") or None,
        Argument(
            "spark-log",
            "LAKELOG_SPARK_LOG",
            "File for the log of Spark and Java; default: one in ~/.cache/lakelog/logs; -: standard error.",
            {"metavar": "FILE"},
        ),
    )


def _read_spark_conf(values: Values) -> dict[str, str]:
    found = {}
    # In a manifest the variable stands on several lines, so there is white space between its settings.
    of_variable = filter(None, (item.strip() for item in values.variable("spark-conf").split(";")))
    for item in [*of_variable, *(values.given("spark-conf") or ())]:
        key, equals, value = item.partition("=")
        if not equals or not key.startswith("spark."):
            raise refusal(f"--spark-conf {_show_name(item)}: write it as spark.some.setting=value.")
        found[key.strip()] = value
    return found


def _show_name(item: str) -> str:
    """The name of a setting of Spark that is written wrongly; its value can be a secret. Pure."""
    name, equals, _ = item.partition("=")
    return f"{name}=..." if equals else f"{name.split()[0]} ..." if len(name.split()) > 1 else name


def _read_spark_master(values: Values, default: str) -> str:
    master = (values.text("spark-master") or "").strip() or default
    if master.startswith("sc://"):
        raise refusal(
            f"--spark-master={master} is a server of Spark Connect, and the driver program of a service is its own "
            "process. Name the cluster itself: spark://host:7077, yarn or k8s://URL."
        )
    if master and not _SPARK_MASTER.fullmatch(master):
        raise refusal(
            f"--spark-master={master} is no master of Spark: write local[4], spark://host:7077, yarn or k8s://URL."
        )
    return master
