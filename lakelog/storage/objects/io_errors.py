"""What pyarrow's files raise while they are read or written, as errors of lakelog.

What stores raise when a file is opened, listed or deleted, they translate themselves; here is what comes later, out of
the open files that they have handed out.
"""

from __future__ import annotations

from lakelog.errors import LakelogError
from lakelog.storage.objects.local import translate_os_error
from lakelog.storage.objects.s3 import translate_s3_error


def translate_io_error(error: OSError, name: str) -> LakelogError | None:
    """Returns the lakelog error that says what an error of the file `name` means.

    Args:
        error: As pyarrow raised it.
        name: The file's absolute URI.

    Returns:
        None where the error is not one of the store: pyarrow raises OSError for damaged files, too.
    """
    if error.errno is not None:
        return translate_os_error(error, name)
    if "AWS Error" in str(error):
        return translate_s3_error(error, name.removeprefix("s3://"))
    return None
