"""Names of writers that the product makes itself: for a single commit, and for jobs. Pure."""

from __future__ import annotations

import re
from typing import Final

from lakelog.format.jobs.job import JOB_LEASES

_ONE_TIME: Final = re.compile(r"(?:sdk|spark)-[0-9a-f]{32}")


def make_one_time_name(program: str, random_id: str) -> str:
    """Returns a name for a writer that commits once, if the user gave none.

    Args:
        program: `sdk` or `spark`.
        random_id: 32 hexadecimal digits that no one can guess.
    """
    return f"{program}-{random_id}"


def is_one_time(writer: str) -> bool:
    """Whether a name is one that `make_one_time_name` makes."""
    return _ONE_TIME.fullmatch(writer) is not None


def is_of_job(writer: str) -> bool:
    """Whether a name is the name of a job's lease, under which only the job's holder commits."""
    return writer.startswith(JOB_LEASES)
