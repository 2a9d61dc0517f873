"""Secrets that options name: each service finds them in its own environment or in a folder of files.

They are read again each time, so that a secret that changed in the folder holds from the next connection on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.options.declared.kafka_values import SECRET_PREFIX
from lakelog.privacy.redaction import remember_secret

SECRET_VARIABLE: Final = "LAKELOG_SECRET_"
"""The prefix of the variables; the secret's name follows it."""

SECRETS_FOLDER_VARIABLE: Final = "LAKELOG_SECRETS_DIR"

_MAX_BYTES: Final = 1 << 20
"""Chains of certificates have some kilobytes."""


class Secrets:
    """Finds secrets by their names. Never shows one, not even in `repr` or a pickle.

    Args:
        variables: The variables of the environment.
        folder: A folder with one file for each secret; None: there is none.
    """

    def __init__(self, variables: Mapping[str, str], folder: str | None = None) -> None:
        self._variables = {key: value for key, value in variables.items() if key.startswith(SECRET_VARIABLE)}
        self._folder = folder

    def resolve(self, name: str) -> str:
        """A secret, without a line end at its end.

        Args:
            name: The name that `lakelog.options` reads from `secret:NAME`; it cannot name another folder.

        Raises:
            InvalidArgument: No secret has this name, or its file cannot be read.
        """
        found = self._variables.get(SECRET_VARIABLE + name)
        if found is None and self._folder is not None:
            found = _read_file(Path(self._folder) / name, name)
        if found == "":
            raise InvalidArgument(
                f"The secret '{SECRET_PREFIX}{name}' is empty at this service. Write it into its variable or file.",
                reason="UNKNOWN_SECRET",
                metadata={"secret": name},
            )
        if found is None:
            where = f"or as the file {name} in the folder {SECRETS_FOLDER_VARIABLE}"
            raise InvalidArgument(
                f"The secret '{SECRET_PREFIX}{name}' is not known to this service. Give it to the service as the "
                f"variable {SECRET_VARIABLE}{name}, {where}.",
                reason="UNKNOWN_SECRET",
                metadata={"secret": name},
            )
        remember_secret(found)
        return found

    def __repr__(self) -> str:
        return f"Secrets({len(self._variables)} variables, folder={self._folder!r})"

    def __reduce__(self) -> tuple[type[Secrets], tuple[dict[str, str], str | None]]:
        # Secrets go to no other process: a pickle may be logged or stored.
        return Secrets, ({}, self._folder)


def read_secrets(environment: Mapping[str, str]) -> Secrets:
    """The secrets of a process, from its environment."""
    return Secrets(environment, environment.get(SECRETS_FOLDER_VARIABLE) or None)


def _read_file(path: Path, name: str) -> str | None:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        # Only the kind of a decoding error: its text repeats what it could not read.
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise InvalidArgument(
            f"The secret '{SECRET_PREFIX}{name}' cannot be read from the folder {SECRETS_FOLDER_VARIABLE}: {why}.",
            reason="UNKNOWN_SECRET",
            metadata={"secret": name},
        ) from None
    if len(text) > _MAX_BYTES:
        raise InvalidArgument(
            f"The secret '{SECRET_PREFIX}{name}' is longer than {_MAX_BYTES} bytes. Give another file.",
            reason="UNKNOWN_SECRET",
            metadata={"secret": name},
        )
    return text.rstrip("\r\n")
