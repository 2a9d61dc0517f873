"""Returns memory to the system that large work has used and freed.

The allocators of C and of Arrow keep what is freed, for later. After a commit of 100,000 files, and the packing of its
files, that was 200 MiB. So memory would grow to the sum of the largest work of each kind, not to the largest work.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

import pyarrow as pa

WORTH_IT: Final = 20_000
"""Work with fewer items leaves little. Returning its memory would take longer than using it again."""

_AFTER_S: Final = 1.5
"""Shortly after the work its objects are freed. What ends meanwhile is returned as well."""

# From `malloc.h` of glibc.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

_MMAP_BYTES: Final = 1 << 20
"""Blocks from this size have pages of their own, which return to the system when they are freed. By itself glibc raises
this size to that of the largest block so far, up to 32 MiB."""

_ARENAS: Final = 2
"""Each arena keeps free memory of its own. Python's lock lets one thread run at a time, so two are enough."""


def set_up_allocator() -> None:
    """Bounds what C's allocator keeps; to be called before there are threads. Elsewhere than on glibc does nothing."""
    mallopt = _find("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


def return_memory() -> None:
    """Returns free memory to the system. Takes some milliseconds for each 100 MiB, without Python's lock."""
    pa.default_memory_pool().release_unused()
    trim = _find("malloc_trim")
    if trim is not None:
        trim(0)


class MemoryReturn:
    """Returns memory some time after large work, once for all work that ends meanwhile. Runs on one event loop."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._is_planned = False

    def after(self, size: int) -> None:
        """Notes that work with some items has ended."""
        if size >= WORTH_IT and not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_later(_AFTER_S, self._start)

    def _start(self) -> None:
        self._is_planned = False
        self._executor.submit(return_memory)


def _find(name: str) -> Callable[..., Any] | None:
    found: Callable[..., Any] | None = getattr(ctypes.CDLL(None), name, None)
    return found
