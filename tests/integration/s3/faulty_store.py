"""S3 stores with a proxy before them."""

from __future__ import annotations

import dataclasses
import uuid

from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.store import S3Settings
from tests.support.s3.proxy import S3Proxy

CONTENT = bytes(range(256)) * 200


def open_faulty(
    settings: S3Settings, proxy: S3Proxy, prefix: str = "", *, attempts: int = 3, timeout_s: float = 60
) -> S3Store:
    """A store whose requests go through the proxy; below the prefix, or a new one."""
    faulty = dataclasses.replace(settings, endpoint=proxy.endpoint, attempts=attempts, timeout_s=timeout_s)
    return S3Store("lake", prefix or uuid.uuid4().hex, faulty)


def put(store: S3Store, path: str, content: bytes = CONTENT) -> int:
    """Writes an object; returns its size."""
    writer = store.create(path)
    try:
        writer.sink.write(content)
        return writer.commit()
    except BaseException:
        writer.abort()
        raise


def read(store: S3Store, path: str) -> bytes:
    """The content of an object, by one range."""
    with store.open_input(path) as source:
        return bytes(source.read_at(source.size(), 0))
