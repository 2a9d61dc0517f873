"""Autoscalers by waiting work: what they do while figures are missing, and what they look at."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence

from tests.support.repository import ROOT
from tests.unit.k8s.manifests import Object, build, of_kind


def find_problems(objects: Sequence[Object]) -> Iterator[str]:
    """An absent figure must count as a failure, so that the fallback holds; as a 0 it would remove replicas."""
    for scaler in of_kind(objects, "ScaledObject"):
        name = scaler["metadata"]["name"]
        if "fallback" not in scaler["spec"]:
            yield f"{name} has no fallback"
        for trigger in scaler["spec"]["triggers"]:
            if trigger["type"] == "prometheus" and trigger["metadata"].get("ignoreNullValues") != "false":
                yield f"{name}: {trigger['metadata']['query']} counts as 0 while it is absent"


def test_scalers_hold_their_replicas_while_figures_are_missing() -> None:
    objects = build("production+keda")
    assert len(of_kind(objects, "ScaledObject")) == 4
    assert list(find_problems(objects)) == []


def test_control_a_trigger_that_takes_absence_for_nothing_is_found() -> None:
    objects = copy.deepcopy(build("production+keda"))
    (scaler,) = [each for each in of_kind(objects, "ScaledObject") if each["metadata"]["name"] == "publisher"]
    del scaler["spec"]["triggers"][0]["metadata"]["ignoreNullValues"]
    del scaler["spec"]["fallback"]
    assert list(find_problems(objects)) == [
        "publisher has no fallback",
        "publisher: max(lakelog_metastore_publish_lag_seconds) counts as 0 while it is absent",
    ]


def test_jobs_and_lags_come_from_metastores_which_always_run() -> None:
    queries = [
        trigger["metadata"]["query"]
        for scaler in of_kind(build("production+keda"), "ScaledObject")
        for trigger in scaler["spec"]["triggers"]
        if trigger["type"] == "prometheus"
    ]
    assert not [query for query in queries if "lakelog_compactor" in query or "lakelog_publisher" in query]


def find_differences(page: str, objects: Sequence[Object]) -> set[tuple[str, str, str]]:
    """Service, query and threshold, of those that only the page's table or only the scalers have."""
    rows = re.findall(r"^\| (\w+) \| `((?:max|sum)\(.*?\))`[^|]*\| ([^|]*(?:[0-9]|each minute)[^|]*) \|", page, re.M)
    written = {(service, query, _to_threshold(text)) for service, query, text in rows}
    scalers = {
        (scaler["metadata"]["name"], trigger["metadata"]["query"], trigger["metadata"]["threshold"])
        for scaler in of_kind(objects, "ScaledObject")
        for trigger in scaler["spec"]["triggers"]
        if trigger["type"] == "prometheus"
    }
    return written ^ scalers


def _to_threshold(text: str) -> str:
    found = re.search("[0-9]+", text.replace("each minute", "60"))
    assert found is not None
    return found[0]


def test_the_page_on_scaling_has_the_queries_and_thresholds_of_the_scalers() -> None:
    page = (ROOT / "docs" / "operations" / "scaling.md").read_text()
    objects = build("production+keda")
    assert find_differences(page, objects) == set()
    # Control: a changed query and a row that is not there.
    waiting = ("metastore", "sum(lakelog_metastore_waiting_commits)", "100")
    assert find_differences(page.replace("sum(lakelog_metastore_w", "max(lakelog_metastore_w"), objects) >= {waiting}
    lag = ("reader", "max(lakelog_reader_lag_snapshots)", "50")
    assert find_differences(page.replace("a replica for 50 snapshots", "a replica for 5 snapshots"), objects) == {
        lag,
        (*lag[:2], "5"),
    }
