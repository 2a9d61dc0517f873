from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from lakelog.storage.objects.local import LocalStore
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.store import ObjectStore
from tests.support.s3.seaweedfs import s3_settings

__all__ = ["s3_settings"]


@pytest.fixture(params=["memory", "local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "local":
        return LocalStore(str(tmp_path / "table"))
    return S3Store("lake", uuid.uuid4().hex, request.getfixturevalue("s3_settings"))
