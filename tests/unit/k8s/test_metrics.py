"""Names of metrics, and the expressions of dashboards, alerts and scalers that name them."""

from __future__ import annotations

import re

import pytest

from dev.declared_metrics import DeclaredMetric, declare, samples
from tests.support.promql import Parser, WrongExpressionError
from tests.unit.k8s.manifests import build
from tests.unit.k8s.rules import LABELS_OF_ALL, expressions

EXPRESSIONS = sorted({*expressions(build("production+monitoring")), *expressions(build("production+keda"))})
METRICS = {metric.name: metric for some in declare().values() for metric in some}


def find_name_problems(metric: DeclaredMetric) -> list[str]:
    """What Prometheus's conventions and ours say against a name."""
    problems = []
    if not re.fullmatch(
        r"lakelog_(metastore|writer|publisher|compactor|reader|console|server|service)_[a-z0-9_]+", metric.name
    ):
        problems.append("it does not begin with lakelog_ and the name of its service")
    if metric.name.endswith("_total") is not (metric.kind == "counter"):
        problems.append("counters end with _total, and others do not")
    if metric.kind == "histogram" and not metric.name.endswith(("_seconds", "_bytes", "_commits", "_runs")):
        problems.append("a histogram ends with its unit")
    if re.search(r"_(ms|s|milliseconds|minutes|kb|mb|mib)$", metric.name):
        problems.append("times are in seconds, and sizes in bytes")
    if {"of", "le", "quantile", "instance", "job"} & set(metric.labels):
        problems.append("a label says nothing, or is Prometheus's own")
    if not re.fullmatch(r"[A-Z0-9][^\n|]*\.", metric.sentence):
        problems.append("its sentence is no sentence of a table")
    return problems


def test_names_keep_the_conventions() -> None:
    assert {name: found for name, metric in METRICS.items() if (found := find_name_problems(metric))} == {}


@pytest.mark.parametrize(
    "metric",
    [
        DeclaredMetric("commits_total", "counter", (), "Commits."),
        DeclaredMetric("lakelog_writer_rows", "counter", (), "Rows."),
        DeclaredMetric("lakelog_writer_batch", "histogram", (), "How long a batch takes."),
        DeclaredMetric("lakelog_writer_batch_ms", "gauge", (), "How long a batch takes."),
        DeclaredMetric("lakelog_writer_files", "gauge", ("of",), "Files."),
        DeclaredMetric("lakelog_writer_files", "gauge", (), ""),
    ],
)
def test_control_another_name_is_found(metric: DeclaredMetric) -> None:
    assert len(find_name_problems(metric)) == 1


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_every_expression_can_be_read_and_names_what_is_measured(where: str, expression: str) -> None:
    known = samples()
    for selector in Parser(expression).parse():
        if not selector.name.startswith("process_"):
            assert set(selector.labels) <= known[selector.name] | LABELS_OF_ALL, where


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "max(lakelog_reader_rows_total",
        "max(lakelog_reader_rows_total))",
        "lakelog_reader_rows_total >",
        "rate(lakelog_reader_rows_total)",
        "rate(lakelog_writer_lag_files[5m])",
        "deriv(lakelog_reader_rows_total[5m])",
        "rate(lakelog_reader_rows_total[5 minutes])",
        "histogram_quantile(0.9, sum by (table) (rate(lakelog_writer_batch_seconds_bucket[5m])))",
        "histogram_quantile(0.9, sum by (le) (rate(lakelog_writer_batch_seconds_sum[5m])))",
        "summ(lakelog_reader_rows_total)",
        "sum by table (lakelog_reader_rows_total)",
        "lakelog_metastore_jobs{state=due}",
        "lakelog_metastore_jobs{state}",
        "lakelog_metastore_jobs; lakelog_metastore_jobs",
    ],
)
def test_control_a_wrong_expression_is_refused(expression: str) -> None:
    with pytest.raises(WrongExpressionError):
        Parser(expression).parse()
