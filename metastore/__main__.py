"""`lakelog metastore serve | migrate | check`."""

from __future__ import annotations

import asyncio
import sys

from lakelog.errors import InvalidArgument
from lakelog.extras import explain_missing
from lakelog.privacy.process import keep_private
from lakelog.privacy.redaction import blot_out

try:
    from lakelog.format.jobs.presence import METASTORE
    from lakelog.tracing import spans
    from lakelog.without_pandas import leave_pandas_out

    from .config import CheckConfig, MigrateConfig, ServeConfig, parse_command, read_environment
    from .memory_return import set_up_allocator
    from .server.logging_setup import set_up_logging
    from .server.startup import StartupFailure
    from .wiring import bring_up_to_date, check, serve
except ModuleNotFoundError as error:
    sys.exit(f"metastore: {explain_missing(error, 'The metastore', 'embedded')}")

CANNOT_START = 2


def main() -> int:
    """Does what the command line says.

    Returns:
                The exit code: 0, or 2 with one line on standard error when the service cannot start as configured.
    """
    leave_pandas_out()
    set_up_allocator()
    try:
        keep_private(read_environment())
        config = parse_command(sys.argv[1:], read_environment()).config
        set_up_logging(config.log_level)
        spans.start(METASTORE, read_environment())
        asyncio.run(_run(config))
    except (StartupFailure, InvalidArgument) as error:
        sys.stderr.write(f"metastore: {blot_out(str(error))}\n")
        return CANNOT_START
    return 0


async def _run(config: ServeConfig | CheckConfig | MigrateConfig) -> None:
    if isinstance(config, ServeConfig):
        await serve(config)
    elif isinstance(config, CheckConfig):
        await check(config)
        sys.stdout.write("configuration, warehouse and database are fine\n")
    else:
        revision = await bring_up_to_date(config)
        sys.stdout.write(f"the database is up to date (revision {revision})\n")


if __name__ == "__main__":
    sys.exit(main())
