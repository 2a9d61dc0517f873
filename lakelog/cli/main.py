"""The entry point of `lakelog`; its first imports need nothing that is missing without the extra `cli`."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from lakelog.cli.interrupts import leave, silent_interrupts
from lakelog.cli.services import SERVICES, become


def main() -> None:
    """Runs this process's command line and exits with one of the codes of `lakelog.cli.failures`."""
    _open_closed_streams()
    if os.environ.get("_LAKELOG_COMPLETE", "").endswith("_complete") and find_spec("click"):
        from lakelog.cli.completion.answer import answer

        answer(os.environ["_LAKELOG_COMPLETE"])
    if sys.argv[1:2] and sys.argv[1] in SERVICES:
        become(sys.argv[1], sys.argv[2:])
    with silent_interrupts():
        for module in ("click", "rich"):
            if find_spec(module) is None:
                sys.stderr.write(f'The lakelog command needs {module}: pip install "lakelog[cli]"\n')
                sys.exit(1)
        # gRPC's C++ lines on the standard error say less than our errors; they come only on request.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        from lakelog.cli.app import run
        from lakelog.cli.failures import ExitCode
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    leave(code)


def _open_closed_streams() -> None:
    """Opens the standard streams that the caller has closed, as `lakelog ... >&-` does, on nothing.

    Python has None for them, and the first connection or file would get their number and whatever is written to it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the lowest free number, which is that of the stream.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


if __name__ == "__main__":
    main()
