"""Where the `lakelog` command begins; imports nothing at first that an installation without the extra `cli` lacks."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from lakelog.cli.services import SERVICES, become

_INTERRUPTED = 130
"""`lakelog.cli.failures.ExitCode.INTERRUPTED`, which cannot be imported before Ctrl-C is looked after."""


def main() -> None:
    """Runs the command line of this process and exits with one of the codes of `lakelog.cli.failures`."""
    if sys.argv[1:2] and sys.argv[1] in SERVICES:
        become(sys.argv[1], sys.argv[2:])
    # Where Ctrl-C is ignored, as below nohup, it stays so.
    takes_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if takes_interrupts:
        # Imports take a second or two; until they are done there is nothing to clean up, and a KeyboardInterrupt
        # inside of one may come out of it as anything.
        signal.signal(signal.SIGINT, _leave)
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as error:
        sys.stderr.write(f'The lakelog command needs {error.name}: pip install "lakelog[cli]"\n')
        sys.exit(1)
    # gRPC's own lines of C++ on the standard error say less than the error that is told; unless somebody wants them.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from lakelog.without_pandas import leave_pandas_out

    leave_pandas_out()
    from lakelog.cli.app import run

    try:
        if takes_interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = _INTERRUPTED
    sys.exit(code)


def _leave(_signal: int, _frame: object) -> NoReturn:
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
