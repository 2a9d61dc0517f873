"""What `import lakelog` offers, how fast, and that its arguments say what may be given."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pandas as pd
import polars as pl
import pytest

import lakelog
from lakelog.reads.streams.consumers import Consumers
from lakelog.sdk.maintenance.tags import Tags
from lakelog.sdk.transaction import TransactionTable
from lakelog.sql import SqlSession
from tests.unit.sdk import typed_program

_CLASSES = (
    lakelog.Catalog,
    lakelog.Table,
    lakelog.Scan,
    lakelog.Subscription,
    lakelog.Snapshot,
    lakelog.SqlResult,
    lakelog.StreamBatch,
    lakelog.SystemScan,
    lakelog.SystemTable,
    lakelog.Transaction,
    TransactionTable,
    Consumers,
    Tags,
    SqlSession,
)
_EXCEPTIONS: dict[str, str] = {}
"""Methods whose arguments may be Any, with the reason. There is none."""


def _methods() -> Iterator[tuple[str, Any]]:
    for kind in _CLASSES:
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{kind.__name__}.{name}", member


def _has_any(hint: object) -> bool:
    return hint is Any or any(_has_any(each) for each in get_args(hint))


@pytest.mark.parametrize(("name", "method"), [pytest.param(*each, id=each[0]) for each in _methods()])
def test_no_argument_is_just_anything(name: str, method: Any) -> None:
    module = sys.modules[method.__module__]
    # What modules import for type checkers alone.
    known = {"pd": pd, "pl": pl, **{each: getattr(lakelog, each) for each in lakelog.__all__}}
    hints = get_type_hints(method, {**known, **vars(module)})
    parameters = set(inspect.signature(method).parameters) - {"self"}
    loose = {each for each in parameters if each not in hints or _has_any(hints[each])}
    assert not loose or name in _EXCEPTIONS, f"{name} takes anything as {loose}"


def test_all_that_is_offered_is_there_and_found_only_when_asked_for() -> None:
    program = (
        "import sys, lakelog\n"
        "before = {name for name in sys.modules if name.startswith('lakelog')}\n"
        "assert before == {'lakelog'}, before\n"
        "assert 'pyarrow' not in sys.modules\n"
        "assert set(lakelog.__all__) <= set(dir(lakelog))\n"
        "for name in lakelog.__all__: assert getattr(lakelog, name) is not None\n"
        "from lakelog.sdk.tables.table import Table\n"
        "assert lakelog.Table is Table\n"
        "try:\n    lakelog.nothing\n"
        "except AttributeError as error: assert 'nothing' in str(error)\n"
        "else: raise AssertionError\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (Path(lakelog.__file__).parent / "py.typed").is_file()


def test_a_typed_program_runs(catalog: lakelog.Catalog) -> None:
    assert typed_program.run(catalog) == 10
