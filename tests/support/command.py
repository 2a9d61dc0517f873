"""The command `lakelog` over a real catalog."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, cast

import pytest

from lakelog.cli.app import run
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.output_format import OutputFormat
from lakelog.cli.output.printer import Printer
from lakelog.sdk.catalog import Catalog


class KeptOpen:
    """The catalog of the test, which the command does not close."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def close(self) -> None:
        pass


@dataclass
class Command:
    catalog: Catalog
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()

        def make_printer(output: OutputFormat) -> Printer:
            return Printer(output, out, err, 120)

        kept = cast(Catalog, KeptOpen(self.catalog))
        code = run(arguments, Invocation(open_catalog=lambda _: kept, make_printer=make_printer))
        captured = self.capture.readouterr()
        return code, captured.out + out.getvalue(), err.getvalue() + captured.err
