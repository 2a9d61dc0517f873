"""Translates errors of pyarrow's open files during reads and writes into errors of lakelog.

Stores themselves translate errors of opening, listing and deleting; this module translates later ones, which come from
the open files that stores have returned.
"""

from __future__ import annotations

from lakelog.errors import LakelogError
from lakelog.storage.objects.local import translate_os_error
from lakelog.storage.objects.s3 import translate_s3_error


def translate_io_error(error: OSError, name: str) -> LakelogError | None:
    """Returns the lakelog error for an error of the file `name`.

    Args:
        error: The error that pyarrow raised.
        name: The file's absolute URI.

    Returns:
        None if the error is not one of the store: pyarrow raises OSError for damaged files, too.
    """
    if error.errno is not None:
        return translate_os_error(error, name)
    if "AWS Error" in str(error):
        return translate_s3_error(error, name.removeprefix("s3://"))
    return None
