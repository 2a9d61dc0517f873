"""Where the `lakelog` command begins; imports nothing that an installation without the extra `cli` lacks."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line of this process and exits with one of the codes of `lakelog.cli.failures`."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as error:
        sys.stderr.write(f'The lakelog command needs {error.name}: pip install "lakelog[cli]"\n')
        sys.exit(1)
    from lakelog.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
