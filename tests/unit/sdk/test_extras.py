"""What a bare installation says of what it lacks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lakelog.extras import explain_missing


@pytest.mark.parametrize(
    ("missing", "program", "told"),
    [
        ("grpc_health", "runpy.run_module('metastore', run_name='__main__')", "metastore: The metastore needs"),
        ("structlog", "runpy.run_module('writer', run_name='__main__')", "writer: The writer needs"),
        ("structlog", "runpy.run_module('metastore', run_name='__main__')", "metastore: The metastore needs"),
    ],
)
def test_a_service_without_its_packages_names_the_extra_in_one_line(missing: str, program: str, told: str) -> None:
    hidden = f"import runpy, sys; sys.modules['{missing}'] = None; {program}"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    expected = f'{told} {missing}, which is not installed: pip install "lakelog[embedded]"\n'
    assert (done.returncode, done.stderr) == (1, expected)


def test_spark_without_pyspark_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import lakelog.spark\n"
        "from lakelog.errors import InvalidArgument\n"
        "try: lakelog.spark.install\n"
        "except InvalidArgument as error: print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (
        'lakelog.spark needs pyspark, which is not installed: pip install "lakelog[spark]"\n',
        "",
    )


def test_modules_of_our_own_that_are_missing_are_no_matter_of_extras() -> None:
    error = ModuleNotFoundError("No module named 'lakelog.nothing'", name="lakelog.nothing")
    with pytest.raises(ModuleNotFoundError):
        explain_missing(error, "lakelog", "sql")
