"""What a session that cannot be made leaves behind is no obstacle to the next one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakelog.spark.session import session


class Context:
    """As much of a context as can be stopped."""

    def __init__(self) -> None:
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


@pytest.mark.parametrize("is_own", [True, False])
def test_a_context_without_a_session_is_stopped(monkeypatch: pytest.MonkeyPatch, is_own: bool) -> None:
    context = Context()

    def fail(builder: Any) -> SparkSession:
        monkeypatch.setattr(SparkContext, "_active_spark_context", context)
        raise RuntimeError("all masters are unresponsive")

    monkeypatch.setattr(session, "java_home", lambda environment: Path("/java"))
    monkeypatch.setattr(session, "java_for_spark", lambda *_: nullcontext())
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None if is_own else context)
    monkeypatch.setenv("JAVA_HOME", "/java")
    with pytest.raises(RuntimeError, match="unresponsive"):
        session.build_session("tests", "spark://nowhere:7077")
    # Somebody else's is not ours to stop.
    assert context.is_stopped is is_own
