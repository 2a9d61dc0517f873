"""The session policy of vended keys: exactly the files below one table's location. Pure.

A session policy only takes away. So the keys may do what both the role and this policy allow, and the policy must be
exact: its resources have wildcards, and a `*`, `?` or `$` in a location would be one. Such locations are refused.
"""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import urlsplit

from lakelog.errors import InvalidArgument

_READ: Final = ("s3:GetObject",)
_WRITE: Final = (
    "s3:GetObject",
    # Also begins, fills and completes uploads in parts.
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
)
_SAFE_PREFIX: Final = re.compile(r"[A-Za-z0-9!_.'()=+@,:;/ -]*")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,254}")
_ROLE: Final = re.compile(r"arn:([a-z][a-z0-9-]*):iam::[0-9a-zA-Z_-]*:?role/[\w+=,.@/-]{1,512}")


def find_partition(role: str) -> str:
    """The partition of Amazon's names that a role belongs to: `aws`, `aws-cn` ...

    Raises:
        InvalidArgument: It is no ARN of a role.
    """
    found = _ROLE.fullmatch(role)
    if found is None:
        raise InvalidArgument(
            f"The role {role[:200]!r} is not the ARN of a role: write arn:aws:iam::123456789012:role/NAME.",
            metadata={"field": "vend-role", "value": role[:200]},
        )
    return found.group(1)


def make_policy(partition: str, location: str, *, writes: bool) -> str:
    """The policy for the files below a location, as JSON: at most 1100 characters, of the 2048 that Amazon takes.

    Args:
        partition: As `find_partition`.
        location: `s3://bucket/prefix/`, without a query.
        writes: Whether it allows to write and delete, too.

    Raises:
        InvalidArgument: The location is none in S3, is a whole bucket, or has characters with a meaning in policies.
    """
    bucket, prefix = split_location(location)
    statements = [
        {
            "Effect": "Allow",
            "Action": list(_WRITE if writes else _READ),
            "Resource": [f"arn:{partition}:s3:::{bucket}/{prefix}/*"],
        },
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": [f"arn:{partition}:s3:::{bucket}"],
            "Condition": {"StringLike": {"s3:prefix": [f"{prefix}/*"]}},
        },
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def split_location(location: str) -> tuple[str, str]:
    """Bucket and prefix of a location for which a policy can be written.

    Raises:
        InvalidArgument: As `make_policy`.
    """
    parts = urlsplit(location)
    prefix = parts.path.strip("/")
    problem = None
    if parts.scheme != "s3" or not _BUCKET.fullmatch(parts.netloc) or parts.query or parts.fragment:
        problem = "is not s3://bucket/prefix/"
    elif not prefix:
        problem = "is a whole bucket"
    elif not _SAFE_PREFIX.fullmatch(prefix):
        problem = "has characters that have a meaning in policies, or are not ASCII"
    elif any(part in ("", ".", "..") for part in prefix.split("/")):
        problem = "has an empty part, or one of dots only"
    if problem is not None:
        raise InvalidArgument(
            f"No keys can be vended for the location {location[:200]!r}: it {problem}. Choose a warehouse whose prefix "
            "has only letters, digits and ! _ . ' ( ) = + @ , : ; - / in it, or leave out --vend-role.",
            metadata={"field": "location", "value": location[:200]},
        )
    return parts.netloc, prefix
