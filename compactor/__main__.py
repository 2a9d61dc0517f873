"""`lakelog compactor run`: the command line of the service."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lakelog.errors import LakelogError
from lakelog.extras import explain_missing
from lakelog.privacy.process import keep_private
from lakelog.privacy.redaction import blot_out

try:
    from lakelog.format.jobs.presence import COMPACTOR
    from lakelog.serving.logging_setup import set_up_logging
    from lakelog.serving.stopping import leave, on_signals
    from lakelog.tracing import spans
    from lakelog.without_pandas import leave_pandas_out

    from .config import parse_config, read_environment
    from .exit_status import ExitStatus, to_exit_status
    from .wiring import make_service
except ModuleNotFoundError as error:
    sys.exit(f"compactor: {explain_missing(error, 'The compactor', 'embedded')}")


def main(arguments: Sequence[str]) -> int:
    """Runs the service; returns the exit code (`compactor.exit_status`)."""
    leave_pandas_out()
    try:
        keep_private(read_environment())
        config = parse_config(arguments, read_environment())
        log = set_up_logging(config.log_level)
        spans.start(COMPACTOR, read_environment())
        service, presence = make_service(config, log)
    except LakelogError as error:
        print(blot_out(error.message), file=sys.stderr)  # noqa: T201
        return ExitStatus(to_exit_status(error))

    on_signals(service.stop, lambda: service.is_stopping)
    with presence:
        return service.run()


if __name__ == "__main__":
    # SUBTLE: a thread that still waits for a job would delay a plain return.
    leave(main(sys.argv[1:]))
