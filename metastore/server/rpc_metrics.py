"""What the server measures about calls: every metric name once, with a sentence."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class RpcMetrics:
    """Measurements of calls under `lakelog_metastore_rpc_*`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "lakelog_metastore_rpc_"
        self._calls = Counter(
            prefix + "calls", "Calls by method and outcome (OK, or the error's reason).", ["method", "outcome"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            prefix + "seconds",
            "From the arrival of a call to its answer, or to the end of a stream.",
            ["method"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._running = Gauge(prefix + "open_calls", "Calls and streams that are open.", registry=registry)
        # `labels` finds the same children, but more slowly: by method, and by method and outcome.
        self._of_method: dict[str, Histogram] = {}
        self._of_outcome: dict[tuple[str, str], Counter] = {}
        self._serving = Gauge(prefix + "serving", "1 while the health service says SERVING.", registry=registry)

    def begin(self) -> None:
        """A call begins."""
        self._running.inc()

    def end(self, method: str, outcome: str, seconds: float) -> None:
        """A call ended. Methods and reasons are names in our own code, so their number is bounded."""
        self._running.dec()
        calls = self._of_outcome.get((method, outcome))
        if calls is None:
            calls = self._of_outcome[method, outcome] = self._calls.labels(method, outcome)
        calls.inc()
        durations = self._of_method.get(method)
        if durations is None:
            durations = self._of_method[method] = self._seconds.labels(method)
        durations.observe(seconds)

    def set_serving(self, serving: bool) -> None:
        """Whether the service is ready for calls."""
        self._serving.set(serving)
