"""Nothing assumes that executors are the driver's process: in Spark's local-cluster mode they are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.embedded.stack import EmbeddedStack
from tests.support.repository import ROOT


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_separate_executors(stack: EmbeddedStack, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(tmp_path)}
    # local-cluster starts its workers by scripts below SPARK_HOME.
    import pyspark

    environment["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("executors_program.py")), stack.target, str(tmp_path / "wh")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
        timeout=480,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stderr[-3000:]
    found = json.loads(lines[0].removeprefix("FOUND "))
    expected = {"0": 4950, "1": 4950, "2": 100}
    assert found["read_table"] == expected
    assert found["format"] == expected
    assert found["sdk"] == 10_000
    assert found["workers"] >= 2
