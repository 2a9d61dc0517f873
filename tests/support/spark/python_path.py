"""The variable PYTHONPATH of programs that start Spark, and of its Python processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

PYTHON_PATH: Final = os.pathsep.join([str(ROOT), str(Path(__file__).with_name("start_of_python"))])
"""lakelog and its tests, and what makes Python processes of Spark start faster."""
