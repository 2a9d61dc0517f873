"""Every page and its address."""

from __future__ import annotations

from typing import Final

from .http.app import PageRoute
from .pages.overview import overview

PAGES: Final = (PageRoute("/", overview),)
