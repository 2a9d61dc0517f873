"""Resolves a user's path to files: a file, a folder with everything below it, or a glob; local or in S3."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from typing import Final

from pyarrow import fs

from lakelog.errors import InvalidArgument, LakelogError, NotFound
from lakelog.storage.objects.s3 import S3Store, translate_s3_error
from lakelog.storage.objects.stores import Stores

S3: Final = "s3://"
_HIDDEN: Final = (".", "_")
"""First characters of the names of files that programs put beside the data, such as `_SUCCESS`."""

_MAGIC: Final = re.compile(r"[*?[]")


def expand_path(given: str) -> list[str]:
    """Returns the files of this machine that a path means.

    Args:
        given: A file, a folder, which stands for all files below it, or a glob, in which `**` stands for any folders.
            In folders and globs, names that begin with `.` or `_` are skipped.

    Returns:
        The files by name. A path that is no folder and no glob is returned as it is, even if it does not exist.

    Raises:
        NotFound: There is no file in the folder, or none matches the glob.
    """
    if os.path.isdir(given):
        return _require(given, _walk(given), "The folder {} holds no files.")
    if os.path.exists(given) or not glob.has_magic(given):
        return [given]
    matches = sorted(match for match in glob.glob(given, recursive=True) if not _is_hidden(match))
    files = [path for match in matches for path in ([match] if os.path.isfile(match) else _walk(match))]
    return _require(given, list(dict.fromkeys(files)), "No file matches {}.")


def open_paths(given: Sequence[str], stores: Stores) -> tuple[fs.FileSystem, list[str]]:
    """Returns the store of some paths, and the paths of their files in it.

    Args:
        given: Paths as of `expand_path`, or `s3://bucket/...`, folders and globs too; all here or all in one bucket.
        stores: Knows how to reach S3.

    Raises:
        NotFound: A path means no file.
        InvalidArgument: The paths belong to several places, or to one that cannot be read.
        LakelogError: The bucket cannot be read.
    """
    buckets = {path.removeprefix(S3).partition("/")[0] if path.startswith(S3) else "" for path in given}
    if len(buckets) > 1:
        raise InvalidArgument(f"{', '.join(given)[:300]} are in several places. Read each by a function of its own.")
    (bucket,) = buckets
    if not bucket:
        local = [path.removeprefix("file://") for path in given]
        strange = next((path for path in local if "://" in path), None)
        if strange is not None:
            raise InvalidArgument(f"{strange} cannot be read: give a path of this machine, or s3://bucket/path.")
        files = [file for path in local for file in expand_path(path)]
        missing = next((file for file in files if not os.path.isfile(file)), None)
        if missing is not None:
            raise _missing(missing, f"There is no file {missing}.")
        return fs.LocalFileSystem(), list(dict.fromkeys(map(os.path.abspath, files)))
    store = stores.open(f"{S3}{bucket}/")
    assert isinstance(store, S3Store)
    keys = [key for path in given for key in _expand_key(store.filesystem, path)]
    return store.filesystem, list(dict.fromkeys(keys))


def _expand_key(filesystem: fs.FileSystem, given: str) -> list[str]:
    key = given.removeprefix(S3).rstrip("/")
    try:
        magic = _MAGIC.search(key)
        if magic is None:
            info = filesystem.get_file_info(key)
            if info.type == fs.FileType.File:
                return [key]
            folder, matches = key, re.compile(".*")
        else:
            folder, matches = key[: magic.start()].rpartition("/")[0], re.compile(_to_pattern(key))
        infos = filesystem.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    except (OSError, LakelogError) as error:
        raise translate_s3_error(error, key) from error
    names = [info.path for info in infos if info.type == fs.FileType.File]
    # Files in folders that programs put beside the data are skipped, too.
    found = [name for name in names if not any(map(_is_hidden, name[len(folder) :].split("/")))]
    return _require(given, sorted(name for name in found if matches.fullmatch(name)), "There is no file {}.")


def _to_pattern(pattern: str) -> str:
    """A glob as a regular expression. Pure."""
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern)
    return "".join(
        parts.get(word) or (word.replace("[!", "[^") if len(word) > 1 else re.escape(word)) for word in words
    )


def _walk(folder: str) -> list[str]:
    files: list[str] = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        files += [os.path.join(root, name) for name in names if not _is_hidden(name)]
    return sorted(files)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(_HIDDEN)


def _require(given: str, files: list[str], message: str) -> list[str]:
    if not files:
        raise _missing(given, f"{message.format(given)} Names that begin with {' or '.join(_HIDDEN)} are passed over.")
    return files


def _missing(path: str, message: str) -> NotFound:
    return NotFound(message, reason="FILE_NOT_FOUND", metadata={"path": path})
