"""The process of streams to sinks is listed while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog.format.jobs.presence import Service, ServiceState
from lakelog.sdk.catalog import Catalog
from tests.e2e.reader.reader_process import Reader
from tests.e2e.reader.stream_files import SCHEMA, write_stream

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def test_streams_start_run_and_end(catalog: Catalog, start_reader: Callable[..., Reader], tmp_path: Path) -> None:
    catalog.create_database("present", if_not_exists=True)
    source = catalog.create_table("present.source", SCHEMA, primary_key=["id"])
    streams = tmp_path / "streams"
    for name in ("here", "there"):
        write_stream(streams, name, source.name, f"{{type: parquet, path: ../out-{name}, row_kind_column: op}}")
    reader = start_reader("run", streams)

    def find() -> Service | None:
        return next((each for each in catalog.services() if each.pid == reader.process.pid), None)

    end_s = time.monotonic() + 240
    while (found := find()) is None or found.state is not ServiceState.RUNNING:
        assert time.monotonic() < end_s, reader.text()[-5000:]
        time.sleep(0.1)
    assert (found.kind, sorted(found.work)) == ("reader", ["here", "there"])
    assert reader.stop() == 0, reader.text()[-5000:]
    assert find() is None
