"""The version of lakelog, apart from everything else, so that any of its rooms can say it."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
