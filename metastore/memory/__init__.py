"""A store in memory, with the transactional semantics of the real one."""

from .store import MemoryStore

__all__ = ["MemoryStore"]
