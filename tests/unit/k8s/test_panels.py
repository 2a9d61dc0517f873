"""What panels show of samples whose meaning is known."""

from __future__ import annotations

from compactor.metrics import Metrics
from tests.support.promql_values import Series, compute, scrape
from tests.unit.k8s.manifests import build
from tests.unit.k8s.rules import expressions

PANELS = dict(expressions(build("production+monitoring")))
NOW_S = 1_000_000.0


def test_live_files_are_those_after_the_last_commit_of_any_metastore() -> None:
    series = Series()
    for instance, files, committed_s in (("a:9090", 5000, 100), ("b:9090", 40, 200)):
        text = f'lakelog_metastore_live_files{{table="shop.orders"}} {files}\n'
        text += f'lakelog_metastore_last_commit_timestamp_seconds{{table="shop.orders"}} {committed_s}\n'
        scrape(series, NOW_S, text, instance)
    found = compute(PANELS["panel Live files"], series, NOW_S)
    assert found == {frozenset({("table", "shop.orders")}): 40}, (
        "a shows what it committed before b compacted the table"
    )


def test_write_amplification_counts_the_bytes_of_all_compactors() -> None:
    series = Series()
    for at_s, large, idle in ((NOW_S - 600, 0, 0), (NOW_S, 1000, 0)):
        for instance, new in (("a:9464", large), ("b:9464", idle)):
            text = f'lakelog_compactor_compacted_bytes_total{{direction="written"}} {3 * new}\n'
            text += f'lakelog_compactor_compacted_bytes_total{{direction="read"}} {3 * new}\n'
            scrape(series, at_s, f"{text}lakelog_compactor_new_bytes_total {new}\n", instance)
    assert compute(PANELS["panel Write amplification"], series, NOW_S) == {frozenset(): 4}


def test_a_compactor_that_has_done_nothing_amplifies_nothing() -> None:
    assert Metrics().registry.get_sample_value("lakelog_compactor_write_amplification") == 1
