"""What executors lack is said in one sentence, with what to do; a session's settings fit where its tasks run."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark import TaskContext

import lakelog
from lakelog.errors import InvalidArgument
from lakelog.spark.executor_check import EXECUTOR_UNFIT, VERSION_PROPERTY, check_version, explain_failure, mark_version
from lakelog.spark.session.session import _make_settings
from lakelog.spark.task_errors import TaskFailed, errors_to_driver, find_lakelog_error


class Task:
    """As much of a task, or of Spark's context, as has local properties."""

    def __init__(self, version: str | None) -> None:
        self.properties: dict[str, str | None] = {VERSION_PROPERTY: version}

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        return self.properties.get(key)

    def setLocalProperty(self, key: str, value: str) -> None:  # noqa: N802
        self.properties[key] = value


def test_an_executor_of_another_version_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    monkeypatch.setattr(TaskContext, "get", lambda: Task("9.8.7"))
    with pytest.raises(TaskFailed) as failed, errors_to_driver():
        done.append("work")
    assert done == []
    error = find_lakelog_error(failed.value)
    assert isinstance(error, InvalidArgument)
    assert error.reason == EXECUTOR_UNFIT
    assert f"has lakelog {lakelog.__version__}, and the driver program 9.8.7" in error.message
    assert "install the wheel on each machine" in error.message


@pytest.mark.parametrize("version", [None, "", lakelog.__version__])
def test_control_the_same_version_and_jobs_of_others_are_not_held_up(
    monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: Task(version))
    check_version()
    monkeypatch.setattr(TaskContext, "get", lambda: None)
    check_version()


def test_jobs_that_are_no_queries_carry_the_version() -> None:
    context: Any = Task(None)
    mark_version(context)
    assert context.properties == {VERSION_PROPERTY: lakelog.__version__}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ModuleNotFoundError: No module named 'lakelog'\n\tat ...", "cannot import lakelog."),
        (
            "...ModuleNotFoundError: No module named 'lakelog.services.writer'",
            "cannot import lakelog.services.writer.",
        ),
        ("ModuleNotFoundError: No module named 'compactor'", "cannot import compactor."),
        (
            "AttributeError: Can't get attribute 'WriteTask' on <module 'lakelog.spark.executor.write' from '/x'>",
            "without lakelog.spark.executor.write.WriteTask",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/py": error=2, No such file or directory',
            "cannot start Python as /opt/py",
        ),
        (
            'java.io.IOException: Cannot run program "./environment/bin/python" (in directory "."): '
            "Exec failed, error: 2 (No such file or directory)",
            "cannot start Python as ./environment/bin/python",
        ),
    ],
)
def test_what_an_executor_lacks_is_said(text: str, part: str) -> None:
    error = find_lakelog_error(RuntimeError(f"Job aborted due to stage failure: {text}"))
    assert isinstance(error, InvalidArgument)
    assert error.reason == EXECUTOR_UNFIT
    assert part in error.message
    assert "PYSPARK_PYTHON" in error.message


@pytest.mark.parametrize("text", ["No module named 'pandas'", "No module named 'lakelogger'", "ValueError: 1", ""])
def test_other_failures_stay_as_they_are(text: str) -> None:
    assert explain_failure(text) is None
    assert find_lakelog_error(RuntimeError(text)) is None


@pytest.mark.parametrize(
    ("master", "is_here"),
    [
        ("local[2]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://host:7077", False),
        ("k8s://https://host", False),
        ("yarn", False),
    ],
)
def test_executors_elsewhere_can_reach_the_driver(monkeypatch: pytest.MonkeyPatch, master: str, is_here: bool) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/python")
    monkeypatch.setenv("JAVA_HOME", "/java")
    settings = _make_settings(master, {"spark.driver.memory": "1g"}, "d")
    of_this_machine = {"spark.driver.host", "spark.driver.bindAddress", "spark.sql.shuffle.partitions"}
    assert of_this_machine & set(settings) == (of_this_machine if is_here else set())
    assert settings["spark.driver.memory"] == "1g"
    chosen = _make_settings(master, {"spark.driver.host": "10.0.0.1"}, "d")
    assert chosen["spark.driver.host"] == "10.0.0.1"
