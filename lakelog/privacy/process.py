"""The first steps of a service, or of a command that starts services."""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.privacy.redaction import remember_secrets
from lakelog.privacy.umask import restrict_new_files


def keep_private(environment: Mapping[str, str]) -> None:
    """Makes new files private, and keeps the secrets of the environment out of logs and errors.

    Raises:
        InvalidArgument: `LAKELOG_UMASK` is no umask.
    """
    remember_secrets(environment)
    restrict_new_files(environment)
