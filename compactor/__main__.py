"""`python -m compactor run`: the command line of the service."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from lakelog.errors import LakelogError
from lakelog.extras import explain_missing

try:
    from lakelog.serving.logs import set_up_logs

    from .config import parse_config, read_environment
    from .ending import Ending, to_ending
    from .wiring import make_service
except ModuleNotFoundError as error:
    sys.exit(f"compactor: {explain_missing(error, 'The compactor', 'embedded')}")


def main(arguments: Sequence[str]) -> int:
    """Runs the service; returns the exit code (`compactor.ending`)."""
    try:
        config = parse_config(arguments, read_environment())
        log = set_up_logs(config.log_level)
        service = make_service(config, log)
    except LakelogError as error:
        print(error.message, file=sys.stderr)  # noqa: T201
        return Ending(to_ending(error))

    def stop(number: int, _frame: object) -> None:
        if service.is_stopping:
            # Asked twice: at once. Whatever is in hand is done again by whoever takes the job over.
            os._exit(128 + number)
        service.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return service.run()


if __name__ == "__main__":
    # SUBTLE: a call that still waits for a job in a thread would keep a plain return waiting.
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
