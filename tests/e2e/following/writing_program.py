"""A user's program: `TABLE REQUEST`; upserts a row under the id of a request, and prints its snapshot."""

from __future__ import annotations

import logging
import sys

import lakelog


def main(table: str, request: str) -> None:
    """Writes the row; logs of the library go to the standard error."""
    logging.basicConfig(stream=sys.stderr, format="%(name)s %(message)s")
    logging.getLogger("lakelog").setLevel(logging.DEBUG)
    catalog = lakelog.connect()
    with lakelog.request_id(request):
        result = catalog.table(table).upsert([{"k": 1, "v": 2}])
    sys.stdout.write(f"{result.snapshot_id}\n")
    catalog.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
