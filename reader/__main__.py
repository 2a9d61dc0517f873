"""`lakelog reader serve | run | check`: the command line of the service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from lakelog.errors import LakelogError
from lakelog.extras import explain_missing
from lakelog.privacy.process import keep_private
from lakelog.privacy.redaction import blot_out

try:
    from lakelog.format.jobs.presence import READER
    from lakelog.serving.logging_setup import set_up_logging
    from lakelog.serving.stopping import leave
    from lakelog.tracing import spans
    from lakelog.without_pandas import leave_pandas_out

    from .config import ServeConfig, parse_config, read_environment
except ModuleNotFoundError as error:
    sys.exit(f"reader: {explain_missing(error, 'The reader', 'embedded')}")

CANNOT_START = 2


def main(arguments: Sequence[str]) -> int:
    """Runs a command; returns the exit code."""
    try:
        keep_private(read_environment())
        config = parse_config(arguments, read_environment())
        if isinstance(config, ServeConfig):
            # Users' functions, which `run` calls, may return values of pandas.
            leave_pandas_out()
            # Not above: each command imports what it needs, and Spark takes long.
            from .wiring import serve

            log = set_up_logging(config.log_level, service="reader")
            spans.start(READER, read_environment())
            asyncio.run(serve(config, log))
            return 0
        from .stream_wiring import check, run

        if config.command == "check":
            return check(config)
        log = set_up_logging(config.log_level, service="reader")
        spans.start(READER, read_environment())
        return run(config, log)
    except LakelogError as error:
        print(blot_out(error.message), file=sys.stderr)  # noqa: T201
        return CANNOT_START
    except ModuleNotFoundError as error:
        print(f"reader: {explain_missing(error, 'The reader', 'embedded')}", file=sys.stderr)  # noqa: T201
        return CANNOT_START


if __name__ == "__main__":
    # SUBTLE: threads of subscriptions and of Spark would delay a plain return.
    leave(main(sys.argv[1:]))
