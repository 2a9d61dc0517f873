"""`lakelog console serve`: the command line of the service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from lakelog.errors import LakelogError
from lakelog.extras import explain_missing
from lakelog.privacy.process import keep_private
from lakelog.privacy.redaction import blot_out

try:
    from lakelog.format.jobs.presence import CONSOLE
    from lakelog.serving.logging_setup import set_up_logging
    from lakelog.serving.stopping import leave
    from lakelog.tracing import spans
    from lakelog.without_pandas import leave_pandas_out

    from .config import parse_config, read_environment
    from .wiring import serve
except ModuleNotFoundError as error:
    sys.exit(f"console: {explain_missing(error, 'The console', 'embedded')}")

CANNOT_START = 2


def main(arguments: Sequence[str]) -> int:
    """Serves pages until a signal; returns the exit code."""
    try:
        keep_private(read_environment())
        config = parse_config(arguments, read_environment())
        leave_pandas_out()
        log = set_up_logging(config.log_level, service="console")
        spans.start(CONSOLE, read_environment())
        asyncio.run(serve(config, log))
    except LakelogError as error:
        print(blot_out(error.message), file=sys.stderr)  # noqa: T201
        return CANNOT_START
    return 0


if __name__ == "__main__":
    # SUBTLE: threads that wait for a metastore would delay a plain return.
    leave(main(sys.argv[1:]))
