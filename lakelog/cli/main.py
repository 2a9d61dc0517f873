"""Where the `lakelog` command begins; imports nothing at first that an installation without the extra `cli` lacks."""

from __future__ import annotations

import importlib.abc
import os
import signal
import sys
from typing import NoReturn

_INTERRUPTED = 130
"""`lakelog.cli.failures.ExitCode.INTERRUPTED`, which cannot be imported before Ctrl-C is looked after."""


def main() -> None:
    """Runs the command line of this process and exits with one of the codes of `lakelog.cli.failures`."""
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
    _keep_pandas_away()
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


def _keep_pandas_away() -> None:
    """Lets pyarrow believe that there is no pandas, until somebody needs it.

    pyarrow imports pandas, where it is installed, with its first scalar, to see whether that is one of its own.
    It takes about a second (measured: 0.9 to 1.9 s), and no command handles such objects. What needs pandas, as
    `to_pandas`, asks pyarrow for it once more, and then it is imported. SUBTLE: pyarrow has no switch for this, and a
    None in `sys.modules`, by which Python itself hides modules, is taken for the module by code that Cython made.
    """

    class NoPandas(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
            if fullname == "pandas":
                raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

    import pyarrow

    finder = NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.scalar(0)
    finally:
        sys.meta_path.remove(finder)


if __name__ == "__main__":
    main()
