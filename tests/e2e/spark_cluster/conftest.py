"""A standalone cluster of Spark, a metastore with its warehouse on S3, and a proxy between executors and S3."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakelog
from lakelog.embedded.stack import EmbeddedStack
from lakelog.storage.objects.store import S3Settings
from tests.e2e.spark_cluster.world import World
from tests.support.forked_stack import forked_stack
from tests.support.s3.proxy import S3Proxy
from tests.support.s3.seaweedfs import s3_settings
from tests.support.spark.standalone import StandaloneCluster, build_wheel, s3_variables

__all__ = ["s3_settings"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for marker in ("e2e", "spark", "slow"):
                item.add_marker(marker)
            # Nine processes of Java and a dozen of Python start on a busy machine.
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="module")
def s3_proxy(s3_settings: S3Settings) -> Iterator[S3Proxy]:
    assert s3_settings.endpoint is not None
    with S3Proxy(s3_settings.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def cluster(s3_settings: S3Settings, s3_proxy: S3Proxy) -> Iterator[StandaloneCluster]:
    reached = dataclasses.replace(s3_settings, endpoint=s3_proxy.endpoint)
    with tempfile.TemporaryDirectory(prefix="ll-spark-", ignore_cleanup_errors=True) as folder:
        wheel = build_wheel(Path(folder) / "wheel")
        with StandaloneCluster(Path(folder), wheel, reached) as running:
            yield running


@pytest.fixture(scope="module")
def s3_stack(s3_settings: S3Settings) -> Iterator[EmbeddedStack]:
    """It reaches S3 directly."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ll-") as folder:
        for name, value in s3_variables(s3_settings).items():
            patch.setenv(name, value)
        with forked_stack(folder, warehouse="s3://lake/spark-cluster") as stack:
            yield stack


@pytest.fixture
def world(
    s3_stack: EmbeddedStack, cluster: StandaloneCluster, s3_proxy: S3Proxy, s3_settings: S3Settings, tmp_path: Path
) -> Iterator[World]:
    for machine in cluster.machines:
        # One that an earlier test has killed.
        if machine.process is None:
            cluster.start_worker(machine)
    with lakelog.connect(s3_stack.target) as catalog:
        catalog.create_database("d", if_not_exists=True)
        world = World(tmp_path, catalog, s3_stack.target, cluster, s3_proxy, s3_settings)
        yield world
        world.end()
