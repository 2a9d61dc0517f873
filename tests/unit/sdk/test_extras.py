"""What a bare installation says of what it lacks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lakelog.extras import explain_missing


@pytest.mark.parametrize(
    ("missing", "program", "reported"),
    [
        ("grpc_health", "runpy.run_module('metastore', run_name='__main__')", "metastore: The metastore needs"),
        ("structlog", "runpy.run_module('writer', run_name='__main__')", "writer: The writer needs"),
        ("structlog", "runpy.run_module('metastore', run_name='__main__')", "metastore: The metastore needs"),
    ],
)
def test_a_service_without_its_packages_names_the_extra_in_one_line(missing: str, program: str, reported: str) -> None:
    hidden = f"import runpy, sys; sys.modules['{missing}'] = None; {program}"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    expected = f'{reported} {missing}, which is not installed: pip install "lakelog[embedded]"\n'
    assert (done.returncode, done.stderr) == (1, expected)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_data_frames_without_their_package_name_it(package: str) -> None:
    program = (
        f"import sys; sys.modules['{package}'] = None\n"
        "import lakelog, pyarrow as pa\n"
        "from lakelog.reads.scan import Scan\n"
        "class Rows(Scan):\n"
        "    def __init__(self): pass\n"
        "    def to_arrow(self): return pa.table({'a': [1]})\n"
        f"try: Rows().to_{package}()\n"
        "except lakelog.errors.InvalidArgument as error: print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    expected = f"to_{package}() needs {package}, which is not installed: pip install {package}.\n"
    assert (done.stdout, done.stderr) == (expected, "")


def test_errors_are_reached_without_an_import_of_their_own() -> None:
    program = (
        "import sys, lakelog\n"
        "assert 'lakelog.errors' not in sys.modules\n"
        "print(lakelog.errors.CommitConflict.__name__)\n"
        "try: lakelog.nothing\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("CommitConflict\nmodule 'lakelog' has no attribute 'nothing'\n", "")


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
