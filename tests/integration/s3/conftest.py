from __future__ import annotations

from tests.support.s3.seaweedfs import s3_settings

__all__ = ["s3_settings"]
