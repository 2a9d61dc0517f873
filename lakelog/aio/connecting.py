"""Connects for asyncio."""

from __future__ import annotations

import lakelog
from lakelog.aio.opening import Opening
from lakelog.aio.sdk.catalog import Catalog
from lakelog.aio.workers import DEFAULT_THREADS, open_workers


def connect(
    target: str | None = None,
    *,
    tls: bool | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    token: str | None = None,
    token_file: str | None = None,
    reader: str | None = None,
    catalog: str | None = None,
    threads: int = DEFAULT_THREADS,
) -> Opening[Catalog]:
    """Connects to a metastore: await it, or use it by `async with`, to get the catalog.

    Arguments and errors as of `lakelog.connect`. A catalog belongs to the event loop in which it was made. It ends with
    the `async with` block, by `await catalog.close()`, or together with `asyncio.run`.

    Args:
        target: See `lakelog.connect`, as for all others.
        tls: See `target`.
        tls_ca: See `target`.
        tls_cert: See `target`.
        tls_key: See `target`.
        token: See `target`.
        token_file: See `target`.
        reader: See `target`.
        catalog: See `target`.
        threads: How many calls run at once; each takes a thread meanwhile, and others wait in their order.

    Raises:
        InvalidArgument: As of `lakelog.connect`; or `threads` is no number of threads.
    """

    async def open_catalog() -> Catalog:
        workers = open_workers(threads)
        opened = await workers.read(
            lambda: lakelog.connect(
                target,
                tls=tls,
                tls_ca=tls_ca,
                tls_cert=tls_cert,
                tls_key=tls_key,
                token=token,
                token_file=token_file,
                reader=reader,
                catalog=catalog,
            )
        )
        made = Catalog(opened, workers)
        await made.live()
        return made

    return Opening(open_catalog)
