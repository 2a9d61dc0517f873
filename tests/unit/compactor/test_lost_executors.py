"""A compactor whose cluster has lost all executors: it does the job itself, where Spark would wait for ever."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
import structlog
from pyspark import SparkConf

from compactor.compactions.bucket_work import RewriteTask, RewrittenTask
from compactor.compactions.spark_rewriting import START_PAUSE_S, WITHOUT_EXECUTORS_S, SparkRewriter
from compactor.executor import Control
from lakelog.clock import SystemClock
from lakelog.spark.session.executors import count_executors, find_parallelism, wait_for_executors
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.rewrite.append import FileRewrite

FILE = LiveFile(7, "data/a/b.parquet", b"", 0, 0, 1, 0, 10, None, None, 0, 1, 1, 0, 1000)


class SettableClock(SystemClock):
    """Goes on where it is moved, and by what others wait."""

    now_s = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Cluster:
    """As much of a session and its context as a compaction uses. Without executors a job waits until it is cancelled.

    Args:
        clock: Goes on with each look at the executors.
        executors: How many there are, look by look; the last one stays.
    """

    def __init__(self, clock: SettableClock, *executors: int, master: str = "spark://host:7077") -> None:
        self.sparkContext = self
        self.master = master
        self.defaultParallelism = 2
        self.cancelled = threading.Event()
        self.jobs = 0
        self._clock = clock
        self._executors = list(executors)

    def setJobGroup(self, *_: object, **__: object) -> None: ...  # noqa: N802

    def setLocalProperty(self, key: str, value: str) -> None: ...  # noqa: N802

    def cancelJobGroup(self, _: str) -> None:  # noqa: N802
        self.cancelled.set()

    def parallelize(self, tasks: list[Any], _: int) -> Cluster:
        self.jobs += 1
        self._tasks = tasks
        return self

    def map(self, _: object) -> Cluster:
        return self

    def collect(self) -> list[RewrittenTask]:
        if self._executors[-1]:
            return [RewrittenTask(task, ()) for task in self._tasks]
        assert self.cancelled.wait(20), "no one gave it up"
        raise RuntimeError("the job was cancelled")

    # What Java's side answers.

    @property
    def _jsc(self) -> Any:
        return self

    def sc(self) -> Any:
        return self

    def getExecutorMemoryStatus(self) -> Any:  # noqa: N802
        return self

    def size(self) -> int:
        self._clock.now_s += 10
        return 1 + (self._executors.pop(0) if len(self._executors) > 1 else self._executors[0])


class Here:
    """Does tasks in the compactor's process."""

    def __init__(self) -> None:
        self.tasks = 0

    def rewrite_some(
        self, store: object, info: object, attempt_id: str, rewrite_tasks: list[RewriteTask], control: object
    ) -> list[RewrittenTask]:
        done = [RewrittenTask(task, ()) for task in rewrite_tasks]
        self.tasks += len(rewrite_tasks)
        rewrite_tasks.clear()
        return done


def rewrite(rewriter: SparkRewriter) -> int:
    tasks = [RewriteTask(FileRewrite("compact-00001", (FILE,)), "test")]
    control = Control(threading.Event())
    info: Any = type("Info", (), {"name": "d.t", "location": "s3://lake/t/"})
    return len(rewriter.rewrite_some(cast(Any, None), info, "a", tasks, control))


def make_rewriter(clock: SettableClock, cluster: Cluster) -> tuple[SparkRewriter, Here]:
    rewriter = SparkRewriter(lambda: cast(Any, cluster), clock, structlog.get_logger(), little_bytes=0)
    here = Here()
    rewriter._here = cast(Any, here)
    return rewriter, here


def test_a_job_without_executors_is_done_in_the_process() -> None:
    clock = SettableClock()
    cluster = Cluster(clock, 2, 1, 0)
    rewriter, here = make_rewriter(clock, cluster)
    began_s = clock.now_s
    assert rewrite(rewriter) == 1
    assert (here.tasks, cluster.jobs) == (1, 1)
    assert clock.now_s - began_s > WITHOUT_EXECUTORS_S
    # The next job does not wait again.
    assert rewrite(rewriter) == 1
    assert (here.tasks, cluster.jobs) == (2, 1)
    # The cluster is back.
    clock.now_s += START_PAUSE_S
    cluster._executors = [2]
    assert rewrite(rewriter) == 1
    assert (here.tasks, cluster.jobs) == (2, 2)


def test_control_executors_that_come_back_in_time_do_the_job() -> None:
    clock = SettableClock()
    cluster = Cluster(clock, 0, 0, 1)
    rewriter, here = make_rewriter(clock, cluster)
    assert rewrite(rewriter) == 1
    assert (here.tasks, cluster.jobs, cluster.cancelled.is_set()) == (0, 1, False)


@pytest.mark.parametrize(
    ("master", "seen", "expected", "within_s"),
    [
        ("local[2]", [0], 1, 30.0),
        ("spark://host:7077", [0, 1, 2, 2], 2, 100.0),
        ("spark://host:7077", [0], 0, 30.0),
    ],
)
def test_executors_of_a_cluster_are_waited_for(master: str, seen: list[int], expected: int, within_s: float) -> None:
    clock = SettableClock()
    context: Any = Cluster(clock, *seen, master=master)
    assert wait_for_executors(context, clock, within_s) == expected
    assert count_executors(context) == (1 if master == "local[2]" else seen[-1])


@pytest.mark.parametrize(
    ("master", "settings", "expected"),
    [
        ("local[2]", {"spark.executor.instances": "9"}, 2),
        ("spark://host:7077", {}, 2),
        ("k8s://https://host", {"spark.executor.instances": "3", "spark.executor.cores": "4"}, 12),
        ("k8s://https://host", {"spark.executor.instances": "3"}, 3),
        ("k8s://https://host", {"spark.executor.instances": "1"}, 2),
        ("k8s://https://host", {"spark.executor.instances": "3", "spark.default.parallelism": "2"}, 2),
        ("k8s://https://host", {"spark.executor.instances": "many"}, 2),
    ],
)
def test_executors_that_are_still_to_come_count(master: str, settings: dict[str, str], expected: int) -> None:
    context: Any = Cluster(SettableClock(), 0, master=master)
    context.getConf = lambda: SparkConf(loadDefaults=False, _jconf=None).setAll(list(settings.items()))
    assert find_parallelism(context) == expected
