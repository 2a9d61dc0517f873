"""When alerts fire and when they do not, computed from samples of four minutes ago and of now."""

from __future__ import annotations

import math

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from metastore.metrics import PrometheusMetrics
from tests.support.promql_values import Series, compute, scrape
from tests.unit.k8s.manifests import build
from tests.unit.k8s.rules import expressions

ALERTS = {where: text for where, text in expressions(build("production+monitoring")) if where.startswith("Lakelog")}
NOW_S = 1_000_000.0
BEFORE_S = NOW_S - 240

Samples = dict[str, float | tuple[float, float]]
"""By name and labels: a value that stays, or the one before and the one now. NaN: it is not there."""

M = "lakelog_metastore_"
FIRES: dict[str, Samples] = {
    "LakelogMetastoreNotServing": {f"{M}rpc_serving": 0},
    "LakelogMetastoreAbsent": {f"{M}watchers": 1},
    "LakelogInternalErrors": {f'{M}group_failures_total{{reason="INTERNAL"}}': (0, 1)},
    "LakelogCommitsWait": {f"{M}waiting_commits": 301},
    "LakelogCommitsSlow": {
        f'{M}commit_latency_seconds_bucket{{le="1.0"}}': (0, 98),
        f'{M}commit_latency_seconds_bucket{{le="2.5"}}': (0, 100),
        f'{M}commit_latency_seconds_bucket{{le="+Inf"}}': (0, 100),
    },
    "LakelogDatabaseBusy": {f"{M}database_waiting_transactions": 51},
    "LakelogDatabaseLost": {f"{M}database_lost_connections_total": (3, 9)},
    "LakelogLogLate": {f'{M}log_lag_seconds{{table="a.b"}}': 61},
    "LakelogLogProblem": {f'{M}log_problems{{table="a.b"}}': 1},
    "LakelogJobsWait": {f'{M}oldest_due_seconds{{kind="compact"}}': 901},
    "LakelogJobsFailed": {f'{M}jobs{{kind="compact",state="failed"}}': 1},
    "LakelogConsumerLate": {f'{M}slow_consumer_seconds{{table="a.b",consumer="c",state="read"}}': 901},
    "LakelogFiguresOld": {f"{M}waiting_work_age_seconds": 301, f"{M}rpc_serving": 1},
    "LakelogFilesGrow": {f'{M}live_files{{table="a.b"}}': (10_000, 10_001)},
    "LakelogPipelineFails": {'lakelog_writer_failures_total{pipeline="p"}': (0, 6)},
    "LakelogPipelineStands": {'lakelog_writer_running{pipeline="p"}': 0},
    "LakelogStreamFails": {'lakelog_reader_stream_failures_total{stream="s"}': (0, 6)},
    "LakelogStreamStands": {'lakelog_reader_stream_running{stream="s"}': 0},
    "LakelogSubscriptionsRefused": {"lakelog_reader_subscriptions_refused_total": (4, 5)},
    "LakelogBrokerCallsHang": {"lakelog_publisher_hanging_calls": 4},
    "LakelogRotationRefused": {'lakelog_server_rotation_refused{setting="token-file"}': 1},
    "LakelogCertificateExpires": {"lakelog_server_certificate_remaining_seconds": 604_799},
}
RESTS: dict[str, Samples] = {
    "LakelogMetastoreNotServing": {f"{M}rpc_serving": 1},
    "LakelogMetastoreAbsent": {f"{M}rpc_serving": 0},
    "LakelogInternalErrors": {
        f'{M}group_failures_total{{reason="INTERNAL"}}': 1,
        f'{M}group_failures_total{{reason="DATABASE_FULL"}}': (0, 1),
    },
    "LakelogCommitsWait": {f"{M}waiting_commits": 300},
    "LakelogCommitsSlow": {
        f'{M}commit_latency_seconds_bucket{{le="1.0"}}': (0, 100),
        f'{M}commit_latency_seconds_bucket{{le="+Inf"}}': (0, 100),
    },
    "LakelogDatabaseBusy": {f"{M}database_waiting_transactions": 50},
    "LakelogDatabaseLost": {f"{M}database_lost_connections_total": (4, 9)},
    "LakelogLogLate": {f'{M}log_lag_seconds{{table="a.b"}}': 60},
    "LakelogLogProblem": {f'{M}log_problems{{table="a.b"}}': 0},
    "LakelogJobsWait": {f'{M}oldest_due_seconds{{kind="compact"}}': 900},
    "LakelogJobsFailed": {f'{M}jobs{{kind="compact",state="due"}}': 1, f'{M}jobs{{kind="compact",state="failed"}}': 0},
    "LakelogConsumerLate": {f'{M}slow_consumer_seconds{{table="a.b",consumer="c",state="silent"}}': 901},
    "LakelogFiguresOld": {f"{M}waiting_work_age_seconds": 299, f"{M}rpc_serving": 1},
    "LakelogFilesGrow": {
        f'{M}live_files{{table="a.b"}}': (20_000, 19_999),
        f'{M}live_files{{table="a.c"}}': (10, 9_000),
    },
    "LakelogPipelineFails": {'lakelog_writer_failures_total{pipeline="p"}': (0, 5)},
    "LakelogPipelineStands": {'lakelog_writer_running{pipeline="p"}': 1},
    "LakelogStreamFails": {'lakelog_reader_stream_failures_total{stream="s"}': (0, 5)},
    "LakelogStreamStands": {'lakelog_reader_stream_running{stream="s"}': 1},
    "LakelogSubscriptionsRefused": {"lakelog_reader_subscriptions_refused_total": 5},
    "LakelogBrokerCallsHang": {"lakelog_publisher_hanging_calls": 3},
    "LakelogRotationRefused": {'lakelog_server_rotation_refused{setting="token-file"}': 0},
    "LakelogCertificateExpires": {"lakelog_server_certificate_remaining_seconds": 604_801},
}


def fires(alert: str, samples: Samples) -> bool:
    series: Series = {}
    for number, at_s in enumerate((BEFORE_S, NOW_S)):
        values = {name: value[number] if isinstance(value, tuple) else value for name, value in samples.items()}
        text = "".join(f"{name} {value}\n" for name, value in values.items() if not math.isnan(value))
        scrape(series, at_s, text)
    return bool(compute(ALERTS[alert], series, NOW_S))


def test_each_alert_is_tried() -> None:
    assert FIRES.keys() == RESTS.keys() == ALERTS.keys()


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_fires_for_what_it_is_for_and_else_rests(alert: str) -> None:
    assert fires(alert, FIRES[alert])
    assert not fires(alert, RESTS[alert])


def test_the_first_defect_is_reported() -> None:
    registry, series = CollectorRegistry(), Series()
    metrics = PrometheusMetrics(registry)
    scrape(series, BEFORE_S, generate_latest(registry).decode())
    metrics.count("group_failures_total", "INTERNAL")
    scrape(series, NOW_S, generate_latest(registry).decode())
    assert compute(ALERTS["LakelogInternalErrors"], series, NOW_S), "Prometheus sees no increase of what was not there"


def test_figures_that_no_metastore_has_any_more_are_old() -> None:
    cleared: Samples = {f"{M}waiting_work_age_seconds": (10, math.nan), f"{M}rpc_serving": 1}
    assert fires("LakelogFiguresOld", {**cleared, f"{M}waiting_work_age_seconds": math.nan})
    assert not fires("LakelogFiguresOld", {f"{M}rpc_serving": 0}), "another alert says that no metastore serves"
    assert not fires("LakelogFiguresOld", {})


def test_a_pipeline_that_waits_for_its_turn_does_not_stand() -> None:
    running = {'lakelog_writer_running{pipeline="p",pod="a"}': 1.0, 'lakelog_writer_running{pipeline="p",pod="b"}': 0.0}
    assert not fires("LakelogPipelineStands", dict(running))
