"""What services show to Prometheus, read as Prometheus does."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

Sample = tuple[str, tuple[tuple[str, str], ...]]


def scrape(address: str) -> dict[Sample, float]:
    """The samples of a process, by name and labels; none if it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as page:
            text = page.read().decode()
    except OSError:
        return {}
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def find_moved(before: dict[Sample, float], after: dict[Sample, float]) -> set[str]:
    """The names of samples that have come, or have another value. Pure.

    What is 0 when it first comes has not moved: counters and levels begin there.
    """
    return {name for (name, labels), value in after.items() if value != before.get((name, labels), 0.0)}
