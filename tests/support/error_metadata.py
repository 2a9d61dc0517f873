"""What an error says in its metadata."""

from __future__ import annotations

from lakelog.errors import LakelogError


def metadata_of(error: LakelogError) -> dict[str, str]:
    """The metadata, without the id that a client over the wire adds: each request has another one."""
    return {name: value for name, value in error.metadata.items() if name != "request_id"}
